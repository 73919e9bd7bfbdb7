// Attention, as a share of the f32 matrix rate; FLOPs are those of the causal half alone.
#include "kernels/attention.h"

#include <cmath>
#include <vector>

#include "bench/kernels/limits.h"

namespace tessera::bench {
namespace {

struct Sizes {
  int64_t b, t, h, d;
  explicit Sizes(const benchmark::State& s)
      : b(s.range(0)), t(s.range(1)), h(s.range(2)), d(s.range(3)) {}
  double flops(int products) const {
    const double pairs = static_cast<double>(b * h) * static_cast<double>(t * (t + 1)) / 2;
    return 2.0 * products * pairs * static_cast<double>(d);
  }
};

template <DType type>
void forward(benchmark::State& state) {
  const Sizes z(state);
  const Tensor qkv({z.b, z.t, z.h, 3, z.d}, type), out({z.b, z.t, z.h, z.d}, type);
  const Tensor lse({z.b, z.h, z.t});
  measure(state, kernels::AttentionArgs{qkv, out, lse, 0.125f});
  report_flops(state, z.flops(2));
}

template <DType type>
void gradient(benchmark::State& state) {
  const Sizes z(state);
  const Tensor qkv({z.b, z.t, z.h, 3, z.d}, type), out({z.b, z.t, z.h, z.d}, type);
  const Tensor d_out({z.b, z.t, z.h, z.d}, type), d_qkv({z.b, z.t, z.h, 3, z.d}, type);
  const Tensor lse({z.b, z.h, z.t});
  const kernels::AttentionArgs before = {qkv, out, lse, 0.125f};
  const HostBuffer workspace("workspace", workspace_bytes(kernels::Cpu(), before, 1));
  launch(kernels::Cpu(), {.workspace = workspace.data()}, before);
  measure(state, kernels::AttentionGradArgs{qkv, out, lse, d_out, d_qkv, 0.125f});
  report_flops(state, z.flops(5));
}

void sizes(benchmark::internal::Benchmark* b) {
  for (const std::vector<int64_t>& z : std::vector<std::vector<int64_t>>{{4, 512, 8, 64},
                                                                         {1, 2048, 8, 64},
                                                                         {16, 128, 8, 64},
                                                                         {1, 2048, 8, 128},
                                                                         {4, 512, 8, 80}}) {
    b->Args(z);
  }
  b->ArgNames({"B", "T", "H", "D"})->Unit(benchmark::kMillisecond)->UseRealTime();
}

BENCHMARK(forward<DType::kF32>)->Apply(sizes);
BENCHMARK(gradient<DType::kF32>)->Apply(sizes);
BENCHMARK(forward<DType::kBF16>)->Apply(sizes);
BENCHMARK(gradient<DType::kBF16>)->Apply(sizes);

}  // namespace
}  // namespace tessera::bench

// Measures the GEMMs and the head of Pythia-70M for 4 x 512 tokens, as a share of the matrix rate
// of their dtype. The head's FLOPs are those of its three GEMMs: the share includes the cost of its
// softmax.
#include "bench/kernels/limits.h"
#include "kernels/linear_cross_entropy.h"

namespace tessera::bench {
namespace {

double rate_of(DType type) {
  static const double f32 = matrix_rate();
  static const double bf16 =
      kernels::measure_matrix_rate(DType::kBF16, read_cpu_features(), omp_get_max_threads());
  return type == DType::kF32 ? f32 : bf16;
}

void report_share(benchmark::State& state, DType type, double flops) {
  using benchmark::Counter;
  const double all = flops * static_cast<double>(state.iterations());
  state.counters["GF/s"] = Counter(all * 1e-9, Counter::kIsRate);
  state.counters["share_of_matrix"] = Counter(all / rate_of(type), Counter::kIsRate);
}

enum Kind { kForward, kInputGradient, kWeightGradient };

// Arguments: outputs and inputs of the layer, whether its weight is packed ahead.
template <DType type, Kind kind>
void product(benchmark::State& state) {
  constexpr int64_t kTokens = 2048;
  const int64_t outputs = state.range(0), inputs = state.range(1);
  kernels::MatmulShape s{.a = type, .b = type};
  if (kind == kForward) s.m = kTokens, s.n = outputs, s.k = inputs, s.transpose_b = true;
  if (kind == kInputGradient) s.m = kTokens, s.n = inputs, s.k = outputs;
  if (kind == kWeightGradient) s.m = outputs, s.n = inputs, s.k = kTokens, s.transpose_a = true;
  s.accumulate = kind == kWeightGradient;
  s.c = s.accumulate ? DType::kF32 : type;
  s.packed_b = state.range(2) != 0;
  const Tensor a({s.m, s.k}, type), b({s.k, s.n}, type), c({s.m, s.n}, s.c);
  const kernels::Matmul matmul(s, read_cpu_features(), omp_get_max_threads());
  const HostBuffer workspace("workspace", matmul.workspace_bytes());
  const HostBuffer packed("packed", matmul.packed_bytes());
  if (packed.bytes() > 0) matmul.pack(b.view().data, packed.data());
  const void* const operand = packed.bytes() > 0 ? packed.data() : b.view().data;
  for (auto _ : state)
    matmul.run({.workspace = workspace.data()}, {a.view().data, operand, c.view().data});
  report_share(state, type, 2.0 * static_cast<double>(kTokens * outputs * inputs));
}

void layers(benchmark::internal::Benchmark* b, bool packs) {
  for (const bool packed : {false, true}) {
    if (packed && !packs) continue;
    b->Args({1536, 512, packed})->Args({512, 512, packed})->Args({2048, 512, packed});
    b->Args({512, 2048, packed});
  }
  b->ArgNames({"out", "in", "packed"})->Unit(benchmark::kMillisecond)->UseRealTime();
}
void weights(benchmark::internal::Benchmark* b) { layers(b, true); }
void activations(benchmark::internal::Benchmark* b) { layers(b, false); }

BENCHMARK(product<DType::kF32, kForward>)->Apply(weights);
BENCHMARK(product<DType::kF32, kInputGradient>)->Apply(weights);
BENCHMARK(product<DType::kF32, kWeightGradient>)->Apply(activations);
BENCHMARK(product<DType::kBF16, kForward>)->Apply(weights);
BENCHMARK(product<DType::kBF16, kInputGradient>)->Apply(weights);
BENCHMARK(product<DType::kBF16, kWeightGradient>)->Apply(activations);

// Argument: tokens at a time.
template <DType type>
void head(benchmark::State& state) {
  constexpr int64_t kTokens = 2048, kHidden = 512, kVocabulary = 50304;
  const Tensor x({kTokens, kHidden}, type), weight({kVocabulary, kHidden}, type);
  const Tensor dx({kTokens, kHidden}, type), dweight({kVocabulary, kHidden});
  const Tensor labels({kTokens}, DType::kI32);
  const kernels::LinearCrossEntropy op({.tokens = kTokens,
                                        .hidden = kHidden,
                                        .vocabulary = kVocabulary,
                                        .dtype = type,
                                        .chunk = state.range(0)},
                                       read_cpu_features(), omp_get_max_threads());
  const HostBuffer workspace("workspace", op.workspace_bytes());
  double report[2] = {};
  const kernels::LinearCrossEntropyOperands operands{
      x.view().data, weight.view().data, labels.view().as<int32_t>(),
      report,        dx.view().data,     dweight.view().f32(),
      true};
  for (auto _ : state) op.run({.workspace = workspace.data()}, operands);
  report_share(state, type, 6.0 * kTokens * kHidden * kVocabulary);
}

BENCHMARK(head<DType::kF32>)
    ->ArgName("chunk")
    ->Arg(128)
    ->Arg(256)
    ->Arg(512)
    ->Arg(1024)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(head<DType::kBF16>)
    ->ArgName("chunk")
    ->Arg(256)
    ->Arg(512)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tessera::bench

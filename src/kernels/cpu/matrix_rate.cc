// Measures the matrix rate of this CPU: the fastest run of a large GEMM, with and without packing.
#include <algorithm>
#include <chrono>
#include <vector>

#include "kernels/matmul.h"
#include "tensor/tensor.h"

namespace tessera::kernels {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Fills an operand with values that do not slow a GEMM down, as denormal or non-finite ones would.
void fill(const HostBuffer& buffer, DType type) {
  const int64_t n = buffer.bytes() / size_of(type);
  for (int64_t i = 0; i < n; ++i) {
    const float x = 0.5f + static_cast<float>(i % 7) * 0.125f;
    if (type == DType::kF32) reinterpret_cast<float*>(buffer.data())[i] = x;
    if (type == DType::kBF16) reinterpret_cast<BF16*>(buffer.data())[i] = BF16(x);
  }
}

}  // namespace

double measure_matrix_rate(DType type, const CpuFeatures& cpu, int threads) {
  constexpr double kBudget_s = 0.2;
  // Large enough for full speed, small enough for many runs within the budget: 4.3 GFLOP.
  constexpr int64_t kM = 2048, kN = 2048, kK = 512;
  const Clock::time_point start = Clock::now();
  const HostBuffer a("matrix rate: A", kM * kK * size_of(type));
  const HostBuffer b("matrix rate: B", kK * kN * size_of(type));
  const HostBuffer c("matrix rate: C", kM * kN * size_of(DType::kF32));
  fill(a, type);
  fill(b, type);
  c.touch(threads);
  // The minimum over runs counts, since other processes only slow runs down.
  double best_s = 1e30;
  do {
    for (const bool packed : {false, true}) {
      const Matmul product({.m = kM, .n = kN, .k = kK, .a = type, .b = type, .packed_b = packed},
                           cpu, threads);
      if (packed && product.packed_bytes() == 0) continue;
      const HostBuffer workspace("matrix rate: workspace", product.workspace_bytes());
      const HostBuffer panels("matrix rate: packed B", product.packed_bytes());
      if (packed) product.pack(b.data(), panels.data());
      for (int i = 0; i < 3; ++i) {  // the first also touches the workspace
        const Clock::time_point before = Clock::now();
        product.run({.workspace = workspace.data()},
                    {a.data(), packed ? panels.data() : b.data(), c.data()});
        best_s = std::min(best_s, seconds_since(before));
        if (seconds_since(start) > kBudget_s) break;
      }
    }
  } while (seconds_since(start) < kBudget_s);
  return 2.0 * kM * kN * kK / best_s;
}

}  // namespace tessera::kernels

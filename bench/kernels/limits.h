// The limits that the benches divide by, measured in the same run, and tensors to run on.
#pragma once

#include <benchmark/benchmark.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "kernels/elementwise.h"
#include "kernels/initialize.h"
#include "kernels/matmul.h"
#include "tensor/cpu_features.h"
#include "tensor/tensor.h"

namespace tessera::bench {

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Owned memory, touched, filled with a constant that no op turns into zeros or denormals.
class Tensor {
 public:
  explicit Tensor(Shape shape, DType dtype = DType::kF32)
      : view_{nullptr, dtype, std::move(shape)}, buffer_("bench", view_.bytes()) {
    view_.data = buffer_.data();
    if (dtype == DType::kF32 || dtype == DType::kBF16) {
      kernels::fill(view_, 0.5f, omp_get_max_threads());
    } else {
      launch(kernels::Cpu(), {.threads = omp_get_max_threads()}, kernels::ClearArgs{view_});
    }
  }
  operator TensorView() const { return view_; }  // NOLINT: the type of kernel operands
  const TensorView& view() const { return view_; }

 private:
  TensorView view_;
  HostBuffer buffer_;
};

// Measures a kernel of the CPU, with all threads.
template <class Args>
void measure(benchmark::State& state, const Args& args) {
  const int threads = omp_get_max_threads();
  const HostBuffer workspace("workspace", workspace_bytes(kernels::Cpu(), args, threads));
  for (auto _ : state)
    launch(kernels::Cpu(), {.workspace = workspace.data(), .threads = threads}, args);
}

// Bytes per second of a = b + s c over arrays larger than the caches, best of five, all threads.
inline double memory_rate() {
  static const double rate = [] {
    constexpr int64_t n = 16 << 20;
    Tensor a({n}), b({n}), c({n});
    float *x = a.view().f32(), *y = b.view().f32(), *z = c.view().f32();
    double best = 0;
    for (int run = 0; run < 5; ++run) {
      const double start = seconds();
#pragma omp parallel for schedule(static)
      for (int64_t i = 0; i < n; ++i) x[i] = y[i] + 0.5f * z[i];
      best = std::max(best, 3.0 * n * sizeof(float) / (seconds() - start));
    }
    return best;
  }();
  return rate;
}

// FLOPs per second of f32 GEMMs.
inline double matrix_rate() {
  static const double rate =
      kernels::measure_matrix_rate(DType::kF32, read_cpu_features(), omp_get_max_threads());
  return rate;
}

inline void report_bytes(benchmark::State& state, double bytes) {
  using benchmark::Counter;
  const double all = bytes * static_cast<double>(state.iterations());
  state.counters["GB/s"] = Counter(all * 1e-9, Counter::kIsRate);
  state.counters["share_of_memory"] = Counter(all / memory_rate(), Counter::kIsRate);
}

inline void report_flops(benchmark::State& state, double flops) {
  using benchmark::Counter;
  const double all = flops * static_cast<double>(state.iterations());
  state.counters["GF/s"] = Counter(all * 1e-9, Counter::kIsRate);
  state.counters["share_of_matrix"] = Counter(all / matrix_rate(), Counter::kIsRate);
}

}  // namespace tessera::bench

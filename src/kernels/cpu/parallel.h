// Divides the work of kernels among OpenMP threads, at most the number that a launch has.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace tessera::kernels {

// The minimum number of elements per thread, a few microseconds of work: with fewer, an additional
// thread costs more than it saves.
constexpr int64_t kGrainElements = 16 * 1024;

// Calls f(begin, end) on contiguous parts of [0, n) with at least `grain` elements each, on at most
// `threads` threads.
template <class F>
void parallel_ranges(int64_t n, int64_t grain, int threads, const F& f) {
  const int64_t parts = std::min<int64_t>(threads, n / std::max<int64_t>(grain, 1));
  if (parts <= 1) {
    if (n > 0) f(int64_t{0}, n);
    return;
  }
#pragma omp parallel num_threads(static_cast <int>(parts))
  {
    const int64_t k = omp_get_num_threads(), i = omp_get_thread_num();
    f(n * i / k, n * (i + 1) / k);
  }
}

// Does the same with rows of `columns` elements.
template <class F>
void parallel_rows(int64_t rows, int64_t columns, int threads, const F& f) {
  parallel_ranges(rows, kGrainElements / std::max<int64_t>(columns, 1) + 1, threads, f);
}

// Calls f(task, thread) for every task in [0, n) on at most `threads` threads, with dynamic
// scheduling.
template <class F>
void parallel_tasks(int64_t n, int threads, const F& f) {
  const int used = static_cast<int>(std::min<int64_t>(std::max(threads, 1), n));
  if (used <= 1) {
    for (int64_t i = 0; i < n; ++i) f(i, 0);
    return;
  }
#pragma omp parallel for schedule(dynamic, 1) num_threads(used)
  for (int64_t i = 0; i < n; ++i) f(i, omp_get_thread_num());
}

}  // namespace tessera::kernels

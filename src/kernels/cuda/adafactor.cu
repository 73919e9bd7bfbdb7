#include "kernels/cuda/adafactor.h"

#include <cmath>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/numbers.h"
#include "kernels/cuda/philox.h"
#include "kernels/cuda/reduce.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 132 * 16;
constexpr int kRowGroups = 32;  // of a block that adds columns

__device__ double square_at(const FactorWork& w, int64_t i, double scale) {
  const double x = static_cast<double>(read(w.gradient, i)) * scale;
  return x * x;
}

struct VectorSums {
  FactorSumsWork a;
  __host__ __device__ int64_t count() const { return a.of.end - a.of.begin; }
  __device__ void operator()(int64_t i) const {
    if (*a.of.skip != 0) return;
    a.rows[a.of.element + i] += square_at(a.of, a.of.begin + i, *a.of.scale) + a.epsilon;
  }
};

// A block has a row.
__global__ void row_sums_kernel(const FactorSumsWork a) {
  if (*a.of.skip != 0) return;  // every thread sees the same
  const int64_t row = a.of.first_row() + blockIdx.x, n = a.of.end - a.of.begin;
  const int64_t before = row * a.of.columns - a.of.element;  // of the stretch: its first column
  const int64_t first = before > 0 ? before : 0;
  const int64_t last = before + a.of.columns < n ? before + a.of.columns : n;
  double sum[1] = {0};
  for (int64_t i = first + threadIdx.x; i < last; i += kThreads)
    sum[0] += square_at(a.of, a.of.begin + i, *a.of.scale) + a.epsilon;
  block_sums(sum, reinterpret_cast<double*>(shared_floats()));
  if (threadIdx.x == 0) a.rows[row] += sum[0];
}

// A block has 32 columns, a lane one of them, a warp every 32nd row.
__global__ void __launch_bounds__(kRowGroups* kWarp)
    column_sums_of_squares_kernel(const FactorSumsWork a) {
  if (*a.of.skip != 0) return;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarp + lane_index();
  const int64_t n = a.of.end - a.of.begin, end = a.of.end_row();
  double sum = 0;
  if (column < a.of.columns)
    for (int64_t row = a.of.first_row() + warp_index(); row < end; row += kRowGroups) {
      const int64_t i = row * a.of.columns + column - a.of.element;
      if (i >= 0 && i < n) sum += square_at(a.of, a.of.begin + i, *a.of.scale) + a.epsilon;
    }
  auto* const shared = reinterpret_cast<double*>(shared_floats());
  shared[warp_index() * kWarp + lane_index()] = sum;
  __syncthreads();
  if (warp_index() != 0 || column >= a.of.columns) return;
  sum = 0;
  for (int w = 0; w < kRowGroups; ++w) sum += shared[w * kWarp + lane_index()];
  a.columns[column] += sum;
}

struct Means {
  FactorMeansWork a;
  __host__ __device__ int64_t count() const { return a.rows + a.columns; }
  __device__ void operator()(int64_t i) const {
    if (*a.skip != 0) return;
    const double b = 1 - pow(*a.step, -a.decay_power);
    const bool row = i < a.rows;
    const int64_t at = row ? i : i - a.rows;
    float& mean = row ? a.row_means[at] : a.column_means[at];
    const double n = static_cast<double>(row ? (a.columns > 0 ? a.columns : 1) : a.rows);
    mean = static_cast<float>(b * static_cast<double>(mean) +
                              (1 - b) * (row ? a.row_sums : a.column_sums)[at] / n);
  }
};

// One block, which all rows' mean goes through.
constexpr int kScalesThreads = 1024;
__global__ void __launch_bounds__(kScalesThreads) scales_kernel(const FactorScalesWork a) {
  double mean[1] = {0};
  for (int64_t i = threadIdx.x; i < a.rows; i += blockDim.x)
    mean[0] += static_cast<double>(a.row_means[i]);
  block_sums(mean, reinterpret_cast<double*>(shared_floats()));
  const double divisor = a.columns > 0 ? mean[0] / static_cast<double>(a.rows) : 1.0;
  for (int64_t i = threadIdx.x; i < a.rows; i += blockDim.x)
    a.row_scales[i] = static_cast<float>(1 / sqrt(static_cast<double>(a.row_means[i]) / divisor));
  for (int64_t j = threadIdx.x; j < a.columns; j += blockDim.x)
    a.column_scales[j] = static_cast<float>(1 / sqrt(static_cast<double>(a.column_means[j])));
}

// Where neighbours of a weight stand in it: one division for all of them. Of a vector there are
// rows alone.
class Places {
 public:
  __device__ Places(int64_t columns, int64_t element)
      : columns_(columns),
        row_(columns == 0 ? element : element / columns),
        column_(columns == 0 ? 0 : element - row_ * columns) {}
  __device__ int64_t row() const { return row_; }
  __device__ int64_t column() const { return column_; }
  __device__ void next() {
    if (++column_ < columns_) return;
    column_ = 0;
    ++row_;
  }

 private:
  int64_t columns_, row_, column_;
};

// Groups of a stretch that starts anywhere: by 16 bytes where it starts at a group.
__device__ bool by_groups(const FactorWork& w) { return w.begin % kGroup == 0; }

__global__ void update_squares_kernel(const UpdateSquaresWork a) {
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kSquaresOfBlock;
  const int64_t n = a.of.end - a.of.begin;
  const int64_t end = begin + kSquaresOfBlock < n ? begin + kSquaresOfBlock : n;
  const double scale = *a.of.scale;
  const bool skip = *a.of.skip != 0;
  double sum[1] = {0};
  float g[kGroup];
  for (int64_t i = begin + threadIdx.x * kGroup; i < end && !skip; i += kThreads * kGroup) {
    const int there = end - i < kGroup ? static_cast<int>(end - i) : kGroup;
    read_group(a.of.gradient, a.of.begin + i, there, by_groups(a.of), g);
    Places at(a.of.columns, a.of.element + i);
    for (int k = 0; k < there; ++k, at.next()) {
      double u = static_cast<double>(g[k]) * scale * static_cast<double>(a.row_scales[at.row()]);
      if (a.of.columns > 0) u *= static_cast<double>(a.column_scales[at.column()]);
      sum[0] += u * u;
    }
  }
  block_sums(sum, reinterpret_cast<double*>(shared_floats()));
  if (threadIdx.x == 0) a.partials[blockIdx.x] = sum[0];
}

// What all elements share.
struct Constants {
  float scale, rate, keep, clip;
};

__device__ Constants constants_of(const AdafactorWork& a) {
  const double weights = sqrt(*a.weight_squares / a.elements);
  const double updates = sqrt(*a.update_squares / a.elements) / a.update_clip;
  double rate = *a.learning_rate;
  if (a.least_scale > 0) rate *= fmax(a.least_scale, weights);
  const double keep = a.decay ? 1 - rate * a.weight_decay : 1.0;
  return {static_cast<float>(*a.of.scale),
          static_cast<float>(rate) * static_cast<float>(1 - a.beta1), static_cast<float>(keep),
          static_cast<float>(1 / fmax(1.0, updates))};
}

// The product of the row's and the column's scale, and what all changes are divided by.
__device__ float scale_at(const AdafactorWork& a, const Places& at, float clip) {
  const float row = a.row_scales[at.row()];
  return a.of.columns == 0 ? clip * row : row * clip * a.column_scales[at.column()];
}

__device__ void update_group(const AdafactorWork& a, const Constants& c, int64_t i, int n) {
  const bool vector = by_groups(a.of);
  const int64_t first = a.of.begin + i;
  float g[kGroup], w[kGroup], m[kGroup] = {}, low[kGroup];
  read_group(a.of.gradient, first, n, vector, g);
  read_group(a.weights, first, n, vector, w);
  if (a.m.data != nullptr) read_group(a.m, first, n, vector, m);
  PhiloxWords words(a.key, static_cast<uint64_t>(*a.step));
  Places at(a.of.columns, a.of.element + i);
  for (int k = 0; k < n; ++k, at.next()) {
    const float u = g[k] * c.scale * scale_at(a, at, c.clip);
    m[k] = c.rate * u + (a.m.data != nullptr ? m[k] * static_cast<float>(a.beta1) : 0.0f);
    w[k] = w[k] * c.keep - m[k];
    low[k] = w[k];
    if (!a.stochastic) continue;
    const uint32_t r = words.of(a.of.element + i + k);
    w[k] = stochastic(w[k], r >> 16, a.weights.type);
    m[k] = stochastic(m[k], r & 0xffffu, a.m.type);
  }
  write_group(a.weights, first, n, vector, w);
  if (a.m.data != nullptr) write_group(a.m, first, n, vector, m);
  if (a.weights_low.data != nullptr) write_group(a.weights_low, first, n, vector, low);
}

__global__ void adafactor_kernel(const AdafactorWork a) {
  if (*a.of.skip != 0) return;
  auto* const shared = reinterpret_cast<Constants*>(shared_floats());
  if (threadIdx.x == 0) *shared = constants_of(a);
  __syncthreads();
  const Constants c = *shared;
  const int64_t n = a.of.end - a.of.begin;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads * kGroup;
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kGroup; i < n;
       i += stride)
    update_group(a, c, i, n - i < kGroup ? static_cast<int>(n - i) : kGroup);
}

}  // namespace

void launch_factor_sums(const FactorSumsWork& a, Stream s) {
  if (a.of.begin >= a.of.end) return;
  if (a.of.columns == 0) return launch_map("factor_vector_sums", s, VectorSums{a});
  launch("factor_row_sums", row_sums_kernel,
         {.x = a.of.end_row() - a.of.first_row(),
          .threads = kThreads,
          .shared_bytes = kWarp * sizeof(double)},
         s, a);
  launch("factor_column_sums", column_sums_of_squares_kernel,
         {.x = blocks_for(a.of.columns, kWarp),
          .threads = kRowGroups * kWarp,
          .shared_bytes = kRowGroups * kWarp * sizeof(double)},
         s, a);
}

void launch_factor_means(const FactorMeansWork& a, Stream s) {
  launch_map("factor_means", s, Means{a});
}

void launch_factor_scales(const FactorScalesWork& a, Stream s) {
  launch("factor_scales", scales_kernel,
         {.threads = kScalesThreads, .shared_bytes = kWarp * sizeof(double)}, s, a);
}

void launch_update_squares(const UpdateSquaresWork& a, Stream s) {
  const int64_t n = a.of.end - a.of.begin;
  if (n <= 0) return;
  launch("update_squares", update_squares_kernel,
         {.x = squares_partials(n), .threads = kThreads, .shared_bytes = kWarp * sizeof(double)}, s,
         a);
  launch_join({a.partials, squares_partials(n), a.sum}, s);
}

void launch_adafactor(const AdafactorWork& a, Stream s) {
  const int64_t blocks = blocks_for(a.of.end - a.of.begin, kThreads * kGroup);
  launch("adafactor", adafactor_kernel,
         {.x = blocks < kMostBlocks ? blocks : kMostBlocks,
          .threads = kThreads,
          .shared_bytes = sizeof(Constants)},
         s, a);
}

}  // namespace tessera::kernels::cuda

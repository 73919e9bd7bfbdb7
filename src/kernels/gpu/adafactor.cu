// Adafactor on the GPU in five kernels (kernels/adafactor.h): sums of g^2 over rows and columns,
// means, scales, the sum of squares of the updates, and the update.
// Row and column sums are computed in one pass over the gradient: a block has a stripe of rows and
// a tile of 256 columns, eight per lane. Row sums are reduced within a warp, with one partial sum
// per tile; column sums stay in registers and are added over the warps, with one partial sum per
// stripe. FactorJoin adds the partial sums in order. Sums are f64, so those of the ranks can be
// added without loss.
//
//   row_partials    [tiles, rows]        shared, f64:  [8 warps, 256 columns], 16 KiB
//   column_partials [stripes, columns]
//
// A rank may own any contiguous range of a weight, so the first and last row of a range may be
// partial; read_squares reads elements outside of it as 0.
#include <cmath>

#include "kernels/adafactor.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/philox.h"
#include "kernels/gpu/reduce.h"
#include "kernels/gpu/views.h"

namespace tessera::kernels::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 132 * 16;

constexpr int64_t kFactorBlocks = 132 * 4;
constexpr int kWarps = kThreads / kWarp;
constexpr int64_t kTile = kWarp * kGroup;  // columns per block of the sums of squares

// A contiguous range of a flat gradient, and its position in the weight.
struct FactorWork {
  Numbers gradient;
  int64_t begin = 0, end = 0, element = 0, columns = 0;  // FactorRun
  const double *scale = nullptr, *skip = nullptr;

  __host__ __device__ int64_t first_row() const { return element / columns; }
  __host__ __device__ int64_t end_row() const {
    return (element + (end - begin) + columns - 1) / columns;
  }
  __host__ __device__ int64_t rows() const { return end_row() - first_row(); }
};

// `row_partials` is [tiles, rows], `column_partials` [stripes, columns].
struct FactorSumsWork {
  FactorWork of;
  bool vector = false;  // rows allow 16-byte accesses
  double epsilon = 0, *rows = nullptr, *columns = nullptr;
  double *row_partials = nullptr, *column_partials = nullptr;
};

// A vector has one sum per element, so no reduction is needed.
struct VectorSums {
  FactorSumsWork a;
  __host__ __device__ int64_t count() const { return a.of.end - a.of.begin; }
  __device__ void operator()(int64_t i) const {
    if (*a.of.skip != 0) return;
    const double x = read(a.of.gradient, a.of.begin + i) * *a.of.scale;
    a.rows[a.of.element + i] += x * x + a.epsilon;
  }
};

// Reads g^2 + epsilon of `n` adjacent elements of a row from column c on; 0 for elements outside
// the range.
__device__ void read_squares(const FactorSumsWork& a, int64_t row, int64_t c, int n, double scale,
                             double (&x)[kGroup]) {
  const int64_t first = row * a.of.columns + c - a.of.element, all = a.of.end - a.of.begin;
  const bool whole = first >= 0 && first + n <= all;
  float g[kGroup] = {};
  if (whole) read_group(a.of.gradient, a.of.begin + first, n, a.vector, g);
  for (int k = 0; k < kGroup; ++k) {
    const bool there = k < n && first + k >= 0 && first + k < all;
    if (there && !whole) g[k] = read(a.of.gradient, a.of.begin + first + k);
    const double y = g[k] * scale;
    x[k] = there ? y * y + a.epsilon : 0.0;
  }
}

// A block has a stripe of rows and 256 columns, eight per lane; its warps process rows in turn.
// Each element is read once; FactorJoin adds the partial sums of rows and columns in order.
__global__ void __launch_bounds__(kThreads) factor_sums_kernel(const FactorSumsWork a) {
  if (*a.of.skip != 0) return;  // the same for all threads
  const int64_t columns = a.of.columns, tile = block_x() * kTile;
  const int64_t c = tile + lane_index() * kGroup, left = columns - c;
  const int n = group_size(left);
  const int64_t rows = a.of.rows(), stripes = gridDim.y;
  const int64_t end = rows * (blockIdx.y + 1) / stripes;
  const double scale = *a.of.scale;
  double sums[kGroup] = {};
  for (int64_t r = rows * blockIdx.y / stripes + warp_index(); r < end; r += kWarps) {
    double x[kGroup], of_row = 0;
    read_squares(a, a.of.first_row() + r, c, n, scale, x);
    for (int k = 0; k < kGroup; ++k) {
      sums[k] += x[k];
      of_row += x[k];
    }
    of_row = warp_sum(of_row);
    if (lane_index() == 0) a.row_partials[blockIdx.x * rows + r] = of_row;
  }
  auto* const shared = reinterpret_cast<double*>(shared_floats());
  for (int k = 0; k < kGroup; ++k)
    shared[warp_index() * kTile + lane_index() * kGroup + k] = sums[k];
  __syncthreads();
  for (int64_t i = threadIdx.x; i < kTile && tile + i < columns; i += kThreads) {
    double sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += shared[w * kTile + i];
    a.column_partials[blockIdx.y * columns + tile + i] = sum;
  }
}

// Adds the partial sums of each row over tiles, and of each column over stripes, in order.
struct FactorJoin {
  FactorSumsWork a;
  int64_t tiles, stripes;
  __host__ __device__ int64_t count() const { return a.of.rows() + a.of.columns; }
  __device__ void operator()(int64_t i) const {
    if (*a.of.skip != 0) return;
    const int64_t rows = a.of.rows();
    const bool row = i < rows;
    const double* const partials = row ? a.row_partials + i : a.column_partials + (i - rows);
    const int64_t parts = row ? tiles : stripes, apart = row ? rows : a.of.columns;
    double sum = 0;
    for (int64_t p = 0; p < parts; ++p) sum += partials[p * apart];
    (row ? a.rows[a.of.first_row() + i] : a.columns[i - rows]) += sum;
  }
};

struct FactorMeansWork {
  int64_t rows = 0, columns = 0;
  double decay_power = 0;
  const double *step = nullptr, *skip = nullptr, *row_sums = nullptr, *column_sums = nullptr;
  float *row_means = nullptr, *column_means = nullptr;
};

// mean = b mean + (1 - b) sum / n,  b = 1 - t^-decay_power. In double, stored as f32.
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
    mean = rounded(b * mean + (1 - b) * (row ? a.row_sums : a.column_sums)[at] / n);
  }
};

struct FactorScalesWork {
  int64_t rows = 0, columns = 0;
  const float *row_means = nullptr, *column_means = nullptr;
  float *row_scales = nullptr, *column_scales = nullptr;
};

// A single block, because every scale needs the mean over all rows.
constexpr int kScalesThreads = 1024;
__global__ void __launch_bounds__(kScalesThreads) scales_kernel(const FactorScalesWork a) {
  double mean[1] = {0};
  for (int64_t i = threadIdx.x; i < a.rows; i += blockDim.x) mean[0] += a.row_means[i];
  block_sums(mean, reinterpret_cast<double*>(shared_floats()));
  const double divisor = a.columns > 0 ? mean[0] / static_cast<double>(a.rows) : 1.0;
  for (int64_t i = threadIdx.x; i < a.rows; i += blockDim.x)
    a.row_scales[i] = rounded(1 / sqrt(a.row_means[i] / divisor));
  for (int64_t j = threadIdx.x; j < a.columns; j += blockDim.x) {
    const double of_column = a.column_means[j];
    a.column_scales[j] = rounded(1 / sqrt(of_column));
  }
}

// *sum += the sum of the squares of u; `partials` has squares_partials(end - begin) doubles.
struct UpdateSquaresWork {
  FactorWork of;
  const float *row_scales = nullptr, *column_scales = nullptr;
  double *partials = nullptr, *sum = nullptr;
};

// Iterates over the row and column of adjacent elements, with a division for the first one only. A
// vector has only rows.
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

// Returns true if the range starts at a group, so that groups can be read with 16-byte accesses.
__device__ bool by_groups(const FactorWork& w) { return w.begin % kGroup == 0; }

// Sums u^2 = (g scale row_scale column_scale)^2 over a fixed block of the range.
__global__ void update_squares_kernel(const UpdateSquaresWork a) {
  const int64_t begin = block_x() * kSquaresOfBlock;
  const int64_t n = a.of.end - a.of.begin;
  const int64_t end = begin + kSquaresOfBlock < n ? begin + kSquaresOfBlock : n;
  const double scale = *a.of.scale;
  const bool skip = *a.of.skip != 0;
  double sum[1] = {0};
  float g[kGroup];
  for (int64_t i = begin + threadIdx.x * kGroup; i < end && !skip; i += kThreads * kGroup) {
    const int there = group_size(end - i);
    read_group(a.of.gradient, a.of.begin + i, there, by_groups(a.of), g);
    Places at(a.of.columns, a.of.element + i);
    for (int k = 0; k < kGroup; ++k, at.next()) {
      if (k >= there) break;
      double u = g[k] * scale * a.row_scales[at.row()];
      if (a.of.columns > 0) u *= a.column_scales[at.column()];
      sum[0] += u * u;
    }
  }
  block_sums(sum, reinterpret_cast<double*>(shared_floats()));
  if (threadIdx.x == 0) a.partials[blockIdx.x] = sum[0];
}

// The arguments of the update of one range.
struct AdafactorWork {
  FactorWork of;
  Numbers weights, m, weights_low;  // no data: none
  bool decay = true, stochastic = false;
  uint64_t key = 0;
  double beta1 = 0, weight_decay = 0, rate_multiplier = 1;
  const double *learning_rate = nullptr, *step = nullptr;
  const float *row_scales = nullptr, *column_scales = nullptr;
  const double *weight_squares = nullptr, *update_squares = nullptr;  // FactorNorms
  double elements = 1, least_scale = 0, update_clip = 1;
};

// Constants that all elements share, computed once per block in double.
struct Constants {
  float scale, rate, keep, clip;
};

__device__ Constants constants_of(const AdafactorWork& a) {
  const double weights = sqrt(*a.weight_squares / a.elements);
  const double updates = sqrt(*a.update_squares / a.elements) / a.update_clip;
  double rate = *a.learning_rate * a.rate_multiplier;
  if (a.least_scale > 0) rate *= fmax(a.least_scale, weights);
  const double keep = a.decay ? 1 - rate * a.weight_decay : 1.0;
  return {rounded(*a.of.scale), rounded(rate) * rounded(1 - a.beta1), rounded(keep),
          rounded(1 / fmax(1.0, updates))};
}

// Returns row scale * column scale * clip factor.
__device__ float scale_at(const AdafactorWork& a, const Places& at, float clip) {
  const float row = a.row_scales[at.row()];
  return a.of.columns == 0 ? clip * row : row * clip * a.column_scales[at.column()];
}

// m = beta1 m + (1 - beta1) rate u,  w = (1 - rate weight_decay) w - m; without m, beta1 is 0.
__device__ void update_group(const AdafactorWork& a, const Constants& c, int64_t i, int n) {
  const bool vector = by_groups(a.of);
  const int64_t first = a.of.begin + i;
  float g[kGroup], w[kGroup], m[kGroup] = {}, low[kGroup];
  read_group(a.of.gradient, first, n, vector, g);
  read_group(a.weights, first, n, vector, w);
  if (a.m.data != nullptr) read_group(a.m, first, n, vector, m);
  PhiloxWords words(a.key, static_cast<uint64_t>(*a.step));
  Places at(a.of.columns, a.of.element + i);
  for (int k = 0; k < kGroup; ++k, at.next()) {
    if (k >= n) break;
    const float u = g[k] * c.scale * scale_at(a, at, c.clip);
    m[k] = c.rate * u + (a.m.data != nullptr ? m[k] * rounded(a.beta1) : 0.0f);
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
  const int64_t stride = threads_of_grid() * kGroup;
  for (int64_t i = thread_of_grid() * kGroup; i < n; i += stride)
    update_group(a, c, i, group_size(n - i));
}

// Returns a number of stripes that gives enough blocks for any GPU, with at least 32 rows per
// stripe.
int64_t factor_stripes(const FactorWork& of) {
  const int64_t enough = blocks_for(kFactorBlocks, blocks_for(of.columns, kTile));
  const int64_t most = blocks_for(of.rows(), 32);
  return enough < most ? enough : most;
}

FactorWork work_of(View gradient, const FactorRun& s, const UpdateNumbers& n) {
  return {numbers(gradient), s.begin, s.end, s.element, s.columns, n.scale, n.skip};
}

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

// row_partials needs at most elements / 256 numbers plus one per row; stripes × tiles is at most
// kFactorBlocks plus one stripe.
int64_t workspace_bytes(Gpu, const FactorSumsArgs& a, int) {
  const int64_t n = a.gradient.elements();
  const int64_t columns = a.columns.shape.rank() > 0 ? a.columns.elements() : 0;
  const int64_t factors = a.rows.elements() + columns;
  return bytes_for<double>(n / kTile + 2 * factors + kFactorBlocks * kTile);
}

void launch(Gpu, const Launch& l, const FactorSumsArgs& args) {
  const FactorRun& run = args.run;
  if (run.begin >= run.end) return;
  FactorSumsWork a;
  a.of = work_of(args.gradient, run, args.numbers);
  a.vector = aligned(args.gradient.data) && run.columns % kGroup == 0 &&
             (run.begin - run.element) % kGroup == 0;
  a.epsilon = args.epsilon;
  a.rows = args.rows.as<double>();
  a.columns = args.columns.as<double>();
  if (run.columns == 0) return launch_map("factor_vector_sums", l.stream, VectorSums{a});
  const int64_t tiles = blocks_for(run.columns, kTile), stripes = factor_stripes(a.of);
  a.row_partials = l.room<double>();
  a.column_partials = a.row_partials + tiles * a.of.rows();
  launch("factor_sums", factor_sums_kernel,
         {.x = tiles,
          .y = stripes,
          .threads = kThreads,
          .shared_bytes = kWarps * kTile * sizeof(double)},
         l.stream, a);
  launch_map("factor_join", l.stream, FactorJoin{a, tiles, stripes});
}

void launch(Gpu, const Launch& l, const FactorMeansArgs& a) {
  launch_map("factor_means", l.stream,
             Means{{a.shape.rows, a.shape.columns, a.decay_power, a.numbers.step, a.numbers.skip,
                    a.row_sums, a.column_sums, a.rows, a.columns}});
}

void launch(Gpu, const Launch& l, const FactorScalesArgs& a) {
  launch("factor_scales", scales_kernel,
         {.threads = kScalesThreads, .shared_bytes = kWarp * sizeof(double)}, l.stream,
         FactorScalesWork{a.shape.rows, a.shape.columns, a.rows, a.columns, a.row_scales,
                          a.column_scales});
}

int64_t workspace_bytes(Gpu, const UpdateSquaresArgs& a, int) {
  return bytes_for<double>(squares_partials(a.gradient.elements()));
}

void launch(Gpu, const Launch& l, const UpdateSquaresArgs& args) {
  require(aligned(args.gradient.data), "the gradient is not aligned");
  const int64_t elements = args.run.end - args.run.begin;
  if (elements <= 0) return;
  const UpdateSquaresWork a = {work_of(args.gradient, args.run, args.numbers),
                               args.scales.row_scales, args.scales.column_scales, l.room<double>(),
                               args.sum};
  launch("update_squares", update_squares_kernel,
         {.x = squares_partials(elements),
          .threads = kThreads,
          .shared_bytes = kWarp * sizeof(double)},
         l.stream, a);
  launch_join({a.partials, squares_partials(elements), a.sum}, l.stream);
}

void launch(Gpu, const Launch& l, const AdafactorArgs& args) {
  const Update& u = args.update;
  const UpdateNumbers& n = args.numbers;
  const FactorScales& scales = args.scales;
  const FactorNorms& norms = args.norms;
  AdafactorWork a;
  a.weights = numbers(u.weights);
  a.m = numbers(u.m);
  a.weights_low = numbers(u.weights_low);
  a.stochastic = u.stochastic;
  a.beta1 = args.constants.beta1;
  a.weight_decay = args.constants.weight_decay;
  a.rate_multiplier = args.constants.rate_multiplier;
  a.learning_rate = n.learning_rate;
  a.step = n.step;
  a.row_scales = scales.row_scales;
  a.column_scales = scales.column_scales;
  a.weight_squares = norms.weight_squares;
  a.update_squares = norms.update_squares;
  a.elements = norms.elements;
  a.least_scale = norms.least_scale;
  a.update_clip = norms.update_clip;
  for (const Numbers& x : {a.weights, a.m, a.weights_low, numbers(u.gradient)})
    require(aligned(x.data), "the weights are not aligned");
  for (const UpdateRange& r : u.ranges) {
    a.of = work_of(u.gradient, {r.begin, r.end, r.element, scales.columns}, n);
    a.decay = r.decay;
    a.key = r.key;
    const int64_t blocks = blocks_for(r.end - r.begin, kThreads * kGroup);
    launch("adafactor", adafactor_kernel,
           {.x = blocks < kMostBlocks ? blocks : kMostBlocks,
            .threads = kThreads,
            .shared_bytes = sizeof(Constants)},
           l.stream, a);
  }
}

}  // namespace tessera::kernels

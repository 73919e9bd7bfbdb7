// Kernels of adapters on the GPU (kernels/adapters.h): one thread per element, or per column for
// the gradient of the magnitudes, and one warp per row for the squares.
#include "kernels/adapters.h"

#include "base/require.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/reduce.h"
#include "kernels/gpu/views.h"

namespace tessera::kernels::gpu {
namespace {

constexpr int kThreads = 256, kRowsOfBlock = kThreads / kWarp;

// y += change, for the columns of a part. The change B (A x) has only these columns.
struct AddPartWork {
  Numbers change, y;
  PartColumns part;
  int64_t elements = 0;

  __host__ __device__ int64_t count() const { return elements; }
  __device__ void operator()(int64_t i) const {
    const int64_t at = part.column(i);  // all groups have the same part
    write(y, at, read(y, at) + read(change, i));
  }
};

// x / |w| of a row of W + s B A, from the squared norm. A row of zeros has no direction: 0.
__device__ float over_norm(float x, float squares) { return squares > 0 ? x / sqrtf(squares) : 0; }

// y = x m / |w| in the columns of the part (DoRA, Liu et al. 2024), x in all others.
struct ScalePartWork {
  Numbers x, magnitude, y;
  const float* squares = nullptr;
  PartColumns part;
  int64_t elements = 0;

  __host__ __device__ int64_t count() const { return elements; }
  __device__ void operator()(int64_t i) const {
    const int64_t column = i % (part.groups * part.width);
    const int64_t c = column % part.width - part.first, m = column / part.width * part.count + c;
    const bool inside = c >= 0 && c < part.count;
    write(y, i, inside ? read(x, i) * over_norm(read(magnitude, m), squares[m]) : read(x, i));
  }
};

// dm += sum over rows of dy x / |w|. One thread adds the rows of a column in their order, so the
// sum does not depend on the number of threads.
struct ScalePartGradWork {
  Numbers dy, x, d_magnitude;
  const float* squares = nullptr;
  PartColumns part;
  int64_t rows = 0;

  __host__ __device__ int64_t count() const { return part.groups * part.count; }
  __device__ void operator()(int64_t m) const {
    const int64_t columns = part.groups * part.width;
    float sum = 0;
    for (int64_t row = 0, at = part.column(m); row < rows; ++row, at += columns)
      sum += read(dy, at) * read(x, at);
    write(d_magnitude, m, read(d_magnitude, m) + over_norm(sum, squares[m]));
  }
};

struct SquaresWork {
  Numbers w, a, b;
  float* squares = nullptr;
  float scale = 1;
  PartColumns part;
  int64_t rows = 0, rank = 0, inputs = 0;
};

// The squared norm of each row of W + s B A, without storing the sum: a warp forms the elements of
// a row one by one, each as a row of B times a column of A.
__global__ void adapted_squares_kernel(const SquaresWork s) {
  const int64_t row = block_x() * kRowsOfBlock + warp_index();
  if (row >= s.rows) return;  // the whole warp
  const int64_t w = s.part.column(row) * s.inputs;
  float sum = 0;
  for (int64_t c = lane_index(); c < s.inputs; c += kWarp) {
    float change = 0;
    for (int64_t k = 0; k < s.rank; ++k)
      change += read(s.b, row * s.rank + k) * read(s.a, k * s.inputs + c);
    const float adapted = read(s.w, w + c) + s.scale * change;
    sum += adapted * adapted;
  }
  sum = warp_sum(sum);
  if (lane_index() == 0) s.squares[row] = sum;
}

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const AddPartArgs& a) {
  require(a.change.dtype == a.y.dtype, "add_part of operands of two types");
  launch_map("add_part", l.stream,
             AddPartWork{numbers(a.change), numbers(a.y), a.part, a.change.elements()});
}

void launch(Gpu, const Launch& l, const ScalePartArgs& a) {
  launch_map("scale_part", l.stream,
             ScalePartWork{numbers(a.x), numbers(a.magnitude), numbers(a.y), a.squares.f32(),
                           a.part, a.x.elements()});
}

void launch(Gpu, const Launch& l, const ScalePartGradArgs& a) {
  const int64_t rows = a.x.elements() / (a.part.groups * a.part.width);
  launch_map("scale_part_grad", l.stream,
             ScalePartGradWork{numbers(a.dy), numbers(a.x), numbers(a.d_magnitude), a.squares.f32(),
                               a.part, rows});
}

void launch(Gpu, const Launch& l, const AdaptedSquaresArgs& a) {
  SquaresWork s = {numbers(a.w), numbers(a.a), numbers(a.b), a.squares.f32(), a.scale, a.part};
  s.rows = a.squares.elements();
  s.rank = a.b.elements() / s.rows;
  s.inputs = a.a.elements() / s.rank;
  launch("adapted_squares", adapted_squares_kernel,
         {.x = blocks_for(s.rows, kRowsOfBlock), .threads = kThreads}, l.stream, s);
}

}  // namespace tessera::kernels

// Kernels of adapters on the CPU. Rows are divided among threads; for the gradient of the
// magnitudes, columns are, so one thread computes each sum in the order of rows.
#include "kernels/adapters.h"

#include <algorithm>
#include <cmath>

#define HWY_TARGET_INCLUDE "kernels/cpu/adapters_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/adapters_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(ScaleColumns);
HWY_EXPORT(SumProducts);
HWY_EXPORT(SquaresOfRows);

namespace {

// Returns the number of columns of a row, after checking the operands that have them all.
int64_t columns_of_part(const PartColumns& p, const TensorView& all, const TensorView& part) {
  const int64_t columns = p.groups * p.width;
  CHECK(p.count >= 1 && p.first >= 0 && p.first + p.count <= p.width && columns > 0 &&
            all.elements() % columns == 0 && part.elements() % (p.groups * p.count) == 0,
        "a part [{}, {}) of {} groups of {} columns of {}", p.first, p.first + p.count, p.groups,
        p.width, to_string(all.shape));
  return columns;
}

// Calls f(column in the whole row, column in the part) for each column of the part.
template <class F>
void each_column(const PartColumns& p, const F& f) {
  for (int64_t g = 0; g < p.groups; ++g)
    for (int64_t c = 0; c < p.count; ++c) f(g * p.width + p.first + c, g * p.count + c);
}

template <class T>
void add_rows(const T* change, T* y, const PartColumns& p, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T* from = change + row * p.count;
    T* const to = y + row * p.width + p.first;
    for (int64_t c = 0; c < p.count; ++c) store_f32(as_f32(to[c]) + as_f32(from[c]), to[c]);
  }
}
void add_rows(const float* change, float* y, const PartColumns& p, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row)
    for (int64_t c = 0; c < p.count; ++c)
      y[row * p.width + p.first + c] += change[row * p.count + c];
}

}  // namespace

void launch(Cpu, const Launch& l, const AddPartArgs& a) {
  columns_of_part(a.part, a.y, a.change);
  CHECK(a.change.dtype == a.y.dtype, "add_part of {} to {}", name_of(a.change.dtype),
        name_of(a.y.dtype));
  // All groups have the same part, so each is a row.
  parallel_rows(a.y.elements() / a.part.width, a.part.count, l.threads,
                [&](int64_t begin, int64_t end) {
                  if (a.y.dtype == DType::kF32)
                    add_rows(a.change.f32(), a.y.f32(), a.part, begin, end);
                  else if (a.y.dtype == DType::kBF16)
                    add_rows(a.change.as<BF16>(), a.y.as<BF16>(), a.part, begin, end);
                  else
                    add_rows(a.change.as<F16>(), a.y.as<F16>(), a.part, begin, end);
                });
}

namespace {

float over_norm(float x, float squares) { return squares > 0 ? x / std::sqrt(squares) : 0; }

}  // namespace

int64_t workspace_bytes(Cpu, const ScalePartArgs& a, int) {
  return bytes_for<float>(a.part.groups * a.part.width);
}

void launch(Cpu, const Launch& l, const ScalePartArgs& a) {
  const int64_t columns = columns_of_part(a.part, a.x, a.magnitude);
  auto* const factors = l.room<float>();
  std::fill_n(factors, columns, 1.0f);
  const Source magnitude(a.magnitude);
  each_column(a.part, [&](int64_t at, int64_t m) {
    factors[at] = over_norm(magnitude[m], a.squares.f32()[m]);
  });
  const auto scale = &HWY_DYNAMIC_DISPATCH(ScaleColumns);
  parallel_rows(a.x.elements() / columns, columns, l.threads,
                [&](int64_t begin, int64_t end) { scale(a.x, factors, a.y, columns, begin, end); });
}

int64_t workspace_bytes(Cpu, const ScalePartGradArgs& a, int) {
  return bytes_for<float>(a.part.groups * a.part.width);
}

void launch(Cpu, const Launch& l, const ScalePartGradArgs& a) {
  const int64_t columns = columns_of_part(a.part, a.x, a.d_magnitude);
  const int64_t rows = a.x.elements() / columns;
  auto* const sums = l.room<float>();
  std::fill_n(sums, columns, 0.0f);
  const auto sum = &HWY_DYNAMIC_DISPATCH(SumProducts);
  parallel_rows(columns, rows, l.threads, [&](int64_t begin, int64_t end) {
    sum(a.dy, a.x, sums, rows, columns, begin, end);
  });
  const Sink to(a.d_magnitude);
  each_column(a.part, [&](int64_t at, int64_t m) {
    to.set(m, Source(to)[m] + over_norm(sums[at], a.squares.f32()[m]));
  });
}

void launch(Cpu, const Launch& l, const AdaptedSquaresArgs& a) {
  const int64_t rows = a.squares.elements();
  const int64_t rank = a.b.elements() / std::max<int64_t>(rows, 1);
  CHECK(rank > 0 && a.a.elements() % rank == 0, "adapters {} and {}", to_string(a.a.shape),
        to_string(a.b.shape));
  const int64_t inputs = a.a.elements() / rank;
  CHECK(a.w.elements() == a.part.groups * a.part.width * inputs &&
            rows == a.part.groups * a.part.count,
        "squares {} of {}", to_string(a.squares.shape), to_string(a.w.shape));
  const AdaptedRows r = {a.w, a.a, a.b, a.squares.f32(), a.scale, rank, inputs, a.part};
  const auto squares = &HWY_DYNAMIC_DISPATCH(SquaresOfRows);
  parallel_rows(rows, inputs * (rank + 1), l.threads,
                [&](int64_t begin, int64_t end) { squares(r, begin, end); });
}

}  // namespace tessera::kernels

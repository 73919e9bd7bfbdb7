// Newton–Schulz iterations by prepared GEMMs, for either device. The GEMMs of an iteration add to
// scaled copies of their other term: B = b A, then B += c A A; Y = a X, then Y += B X.
//
// The iteration X ← a X + (b A + c A²) X with A = X Xᵀ maps every singular value s of X to the odd
// polynomial a s + b s³ + c s⁵ and leaves the singular vectors unchanged. Its coefficients push all
// values in (0, 1] toward 1, so X approaches U Vᵀ of its singular value decomposition without
// computing one. Dividing by the Frobenius norm first bounds all singular values by 1. Source:
// Jordan et al. 2024 (Muon).
//
// A has the size of the smaller side: a tall X uses A = Xᵀ X and X B in place of B X. Coefficients
// may differ per iteration; GEMMs are prepared once per set of coefficients, because c is a part of
// a prepared GEMM.
#include "kernels/newton_schulz.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tessera::kernels {
namespace {

constexpr double kEpsilon = 1e-7;

MatmulShape gram_shape(const NewtonSchulzShape& s) {
  const bool wide = s.rows <= s.columns;
  const int64_t side = std::min(s.rows, s.columns);
  return {.m = side,
          .n = side,
          .k = std::max(s.rows, s.columns),
          .transpose_a = !wide,
          .transpose_b = wide,
          .a = s.dtype,
          .b = s.dtype,
          .c = s.dtype};
}

MatmulShape square_shape(const NewtonSchulzShape& s, double factor) {
  const int64_t side = std::min(s.rows, s.columns);
  return {.m = side,
          .n = side,
          .k = side,
          .accumulate = true,
          .a = s.dtype,
          .b = s.dtype,
          .c = s.dtype,
          .alpha = static_cast<float>(factor)};
}

MatmulShape apply_shape(const NewtonSchulzShape& s) {
  return {.m = s.rows,
          .n = s.columns,
          .k = std::min(s.rows, s.columns),
          .accumulate = true,
          .a = s.dtype,
          .b = s.dtype,
          .c = s.dtype};
}

}  // namespace

OrthogonalMatrices::OrthogonalMatrices(const NewtonSchulzShape& shape, const Backend& backend)
    : shape_(shape), kernels_(backend.table()), side_(std::min(shape.rows, shape.columns)) {
  gram_ = backend.product(gram_shape(shape));
  apply_ = backend.product(apply_shape(shape));
  int64_t most = std::max(gram_->workspace_bytes(), apply_->workspace_bytes());
  for (int64_t i = 0; i < shape.steps; ++i) {
    const NewtonSchulzStep numbers = newton_schulz_step(shape.coefficients, i);
    const auto known = std::find_if(steps_.begin(), steps_.end(),
                                    [&](const Step& s) { return s.numbers == numbers; });
    if (known != steps_.end()) continue;
    steps_.push_back({numbers, backend.product(square_shape(shape, numbers.c))});
    most = std::max(most, steps_.back().square->workspace_bytes());
  }
  const TensorView matrix = {nullptr, shape.dtype, {shape.rows, shape.columns}};
  most = std::max(most, kernels_.of<SquaresArgs>().workspace_bytes(SquaresArgs{matrix, nullptr},
                                                                   backend.threads()));
  // The sum of squares comes first. Every array begins at a multiple of what GEMMs need on a GPU.
  constexpr int64_t kAlignment = 256;
  const auto take = [&](int64_t size) {
    const int64_t at = bytes_;
    bytes_ += (size + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  };
  take(sizeof(double));
  x_ = take(matrix.bytes());
  y_ = take(matrix.bytes());
  a_ = take(side_ * side_ * size_of(shape.dtype));
  b_ = take(side_ * side_ * size_of(shape.dtype));
  scratch_ = take(most);
}

const OrthogonalMatrices::Step& OrthogonalMatrices::step(int64_t i) const {
  const NewtonSchulzStep numbers = newton_schulz_step(shape_.coefficients, i);
  const auto found = std::find_if(steps_.begin(), steps_.end(),
                                  [&](const Step& s) { return s.numbers == numbers; });
  CHECK(found != steps_.end(), "step {} of {} was not prepared", i, shape_.steps);
  return *found;
}

void OrthogonalMatrices::run_one(const Launch& l, const TensorView& matrix) const {
  Launch own = l;
  own.workspace = l.room<std::byte>(scratch_);
  auto* const squares = l.room<double>();
  const auto run = [&](const auto& args) {
    kernels_.of<std::decay_t<decltype(args)>>().run(own, args);
  };
  const auto view = [&](int64_t at) {
    return TensorView{l.room<std::byte>(at), shape_.dtype, matrix.shape};
  };
  const auto small = [&](int64_t at) {
    return TensorView{l.room<std::byte>(at), shape_.dtype, {side_ * side_}};
  };
  const TensorView a = small(a_), b = small(b_);
  TensorView x = view(x_), y = view(y_);
  run(ClearArgs{{squares, DType::kF64, {1}}});
  run(SquaresArgs{matrix, squares});
  run(UnitNormArgs{matrix, squares, kEpsilon, x});
  const bool wide = shape_.rows <= shape_.columns;
  for (int64_t i = 0; i < shape_.steps; ++i) {
    const Step& s = step(i);
    gram_->run(own, {x.data, x.data, a.data});
    run(ScaleArgs{a, static_cast<float>(s.numbers.b), b});
    s.square->run(own, {a.data, a.data, b.data});
    run(ScaleArgs{x, static_cast<float>(s.numbers.a), y});
    apply_->run(own, {wide ? b.data : x.data, wide ? x.data : b.data, y.data});
    std::swap(x, y);
  }
  run(CopyArgs{x, matrix});
}

void OrthogonalMatrices::run(const Launch& l, void* matrices) const {
  const int64_t elements = shape_.rows * shape_.columns;
  for (int64_t i = 0; i < shape_.matrices; ++i)
    run_one(l, {static_cast<std::byte*>(matrices) + i * elements * size_of(shape_.dtype),
                shape_.dtype,
                {elements}});
}

}  // namespace tessera::kernels

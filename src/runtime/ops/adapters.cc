// Bindings of the ops of adapters. Dimensions before the one that is divided into parts are groups
// of columns; it and the dimensions after it are columns.
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

// Returns the columns that `part` covers along dimension `dim`. Dimensions [from, dim) are groups,
// and dimensions [dim, to) are columns.
kernels::PartColumns columns(const Shape& all, const Shape& part, int dim, int64_t first, int from,
                             int to) {
  const int64_t inner = all.product(dim + 1, to);
  return {all.product(from, dim), all[dim] * inner, first * inner, part[dim] * inner};
}

void run_add_part(const BoundOp& b) {
  const AddPart& a = b.op->as<AddPart>();
  const TensorView y = b.out(AddPart::kY), change = b.in(AddPart::kChange);
  const int dim = static_cast<int>(a.dim);
  b.copy_unless_shared(b.in(AddPart::kBase), y);
  b.run(kernels::AddPartArgs{change, y,
                             columns(y.shape, change.shape, dim, a.first, dim, y.shape.rank())});
}

void run_take_part(const BoundOp& b) {
  const TakePart& a = b.op->as<TakePart>();
  const TensorView x = b.in(TakePart::kX), y = b.out(TakePart::kY);
  const int dim = static_cast<int>(a.dim);
  const kernels::PartColumns p = columns(x.shape, y.shape, dim, a.first, dim, x.shape.rank());
  const int64_t bytes = size_of(x.dtype);
  b.run(kernels::CopyRowsArgs{.to = y.as<std::byte>(),
                              .to_pitch = p.count * bytes,
                              .from = x.as<std::byte>() + p.first * bytes,
                              .from_pitch = p.width * bytes,
                              .bytes = p.count * bytes,
                              .rows = x.shape.product(0, dim)});
}

kernels::AdaptedSquaresArgs squares_args(const BoundOp& b) {
  const AdaptedSquares& a = b.op->as<AdaptedSquares>();
  const TensorView w = b.in(AdaptedSquares::kW), up = b.in(AdaptedSquares::kB);
  const int out = up.shape.rank() - 1;
  return {w,
          b.in(AdaptedSquares::kA),
          up,
          b.out(AdaptedSquares::kSquares),
          static_cast<float>(a.scale),
          columns(w.shape, up.shape, static_cast<int>(a.dim), a.first, 0, out)};
}

// Returns the columns of x that `magnitude` covers. Its dimensions before the divided one are
// groups.
kernels::PartColumns scaled(const TensorView& x, const TensorView& magnitude, int64_t dim,
                            int64_t first) {
  const int lead = x.shape.rank() - magnitude.shape.rank();
  const Shape outputs(std::vector<int64_t>(x.shape.dims().begin() + lead, x.shape.dims().end()));
  return columns(outputs, magnitude.shape, static_cast<int>(dim) - lead, first, 0, outputs.rank());
}

kernels::ScalePartArgs scale_args(const BoundOp& b) {
  const ScalePart& a = b.op->as<ScalePart>();
  const TensorView x = b.in(ScalePart::kX), magnitude = b.in(ScalePart::kMagnitude);
  return {x, magnitude, b.in(ScalePart::kSquares), b.out(ScalePart::kY),
          scaled(x, magnitude, a.dim, a.first)};
}

kernels::ScalePartGradArgs scale_grad_args(const BoundOp& b) {
  const ScalePartGrad& a = b.op->as<ScalePartGrad>();
  const TensorView x = b.in(ScalePartGrad::kX), squares = b.in(ScalePartGrad::kSquares);
  return {b.in(ScalePartGrad::kDy), x, squares, b.out(ScalePartGrad::kDMagnitude),
          scaled(x, squares, a.dim, a.first)};
}

void run_scale_grad(const BoundOp& b) {
  b.clear_if_fresh(ScalePartGrad::kDMagnitude);
  b.run(scale_grad_args(b));
}

}  // namespace

template <>
const Binding& binding_for<AddPart>() {
  static constexpr Binding kBinding = {run_add_part};
  return kBinding;
}
template <>
const Binding& binding_for<TakePart>() {
  static constexpr Binding kBinding = {run_take_part};
  return kBinding;
}
template <>
const Binding& binding_for<AdaptedSquares>() {
  static constexpr Binding kBinding = kernel<squares_args>();
  return kBinding;
}
template <>
const Binding& binding_for<ScalePart>() {
  static constexpr Binding kBinding = kernel<scale_args>();
  return kBinding;
}
template <>
const Binding& binding_for<ScalePartGrad>() {
  static constexpr Binding kBinding = {run_scale_grad, workspace_of<scale_grad_args>};
  return kBinding;
}

}  // namespace tessera::runtime

// Bindings of clear, squares and clip, which write to the report of the step.
#include "ir/state.h"
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

kernels::ClearArgs clear_args(const BoundOp& b) { return {b.out(Clear::kReport)}; }

void run_squares(const BoundOp& b) {
  const TensorView gradient = flat(b.in(Squares::kGradient));
  double* const sum = number_at(b.out(Squares::kReport), kSquareSum);
  for (const MemberRange& m : b.members->ranges)
    // A weight that several ranks hold is counted by one of them, so that the sum over ranks is the
    // squared norm.
    if (m.counted) b.run(kernels::SquaresArgs{part(gradient, m.first, m.last), sum});
}

int64_t squares_workspace(const BoundOp& b) {
  return b.workspace_bytes(kernels::SquaresArgs{flat(b.in(Squares::kGradient)), nullptr});
}

kernels::ClipArgs clip_args(const BoundOp& b) {
  const TensorView report = b.out(Clip::kReport), step = b.in(Clip::kStep);
  const auto r = [&](int64_t i) { return number_at(report, i); };
  return {.tokens = r(kLossTokens),
          .squares = r(kSquareSum),
          .loss = r(kLossSum),
          .loss_scale = number_at(step, kLossScale),
          .skip_before = number_at(step, kPreviousSkipped),
          .norm = r(kGradNorm),
          .scale = r(kScale),
          .skip = r(kSkip),
          .limit = b.op->as<Clip>().norm};
}

}  // namespace

template <>
const Binding& binding_for<Clear>() {
  static constexpr Binding kBinding = kernel<clear_args>();
  return kBinding;
}
template <>
const Binding& binding_for<Squares>() {
  static constexpr Binding kBinding = {run_squares, squares_workspace};
  return kBinding;
}
template <>
const Binding& binding_for<Clip>() {
  static constexpr Binding kBinding = kernel<clip_args>();
  return kBinding;
}

}  // namespace tessera::runtime

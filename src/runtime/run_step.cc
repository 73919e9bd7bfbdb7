// What a step does to state: clear, squares, clip.
#include <algorithm>
#include <cmath>

#include "ir/state.h"
#include "kernels/fill.h"
#include "kernels/squares.h"
#include "runtime/bound_op.h"

namespace tessera {

void run_clear(const BoundOp& b) { kernels::clear(b.out[0]); }

void run_squares(const BoundOp& b) {
  const TensorView g = flat(b.in[0]);
  for (const MemberRange& m : b.members)
    if (m.counted)
      b.out[0].as<double>()[kSquares] +=
          kernels::sum_of_squares(part(g, m.first, m.last), b.workspace);
}

void run_clip(const BoundOp& b) {
  auto* r = b.out[0].as<double>();
  const double loss_scale = b.op->inputs.size() > 1 ? b.in[1].as<double>()[kLossScale] : 1;
  const double tokens = std::max(r[kLossTokens], 1.0) * loss_scale;
  const double limit = b.op->attributes.number("norm");
  r[kGradNorm] = std::sqrt(r[kSquares]) / tokens;
  // The small number is PyTorch's and Megatron's, so that a clipped run equals theirs.
  constexpr double kTiny = 1e-6;
  const double clip = limit > 0 ? std::min(1.0, limit / (r[kGradNorm] + kTiny)) : 1.0;
  r[kScale] = clip / tokens;
  r[kSkip] = std::isfinite(r[kSquares]) && std::isfinite(r[kLossSum]) ? 0 : 1;
}

}  // namespace tessera

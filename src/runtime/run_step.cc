// What a step does to state: clear, squares, clip.
#include "ir/state.h"
#include "runtime/bound_op.h"

namespace tessera {

void run_clear(const BoundOp& b) { b.kernels->clear(b.stream, b.out[0]); }

void run_squares(const BoundOp& b) {
  const TensorView g = flat(b.in[0]);
  for (const MemberRange& m : b.members)
    if (m.counted)
      b.kernels->squares(b.stream, part(g, m.first, m.last), b.workspace,
                         b.out[0].as<double>() + kSquares);
}

void run_clip(const BoundOp& b) {
  auto* r = b.out[0].as<double>();
  const auto* step = b.in[1].as<double>();
  b.kernels->clip(b.stream, {.tokens = r + kLossTokens,
                             .squares = r + kSquares,
                             .loss = r + kLossSum,
                             .loss_scale = step + kLossScale,
                             .skip_before = step + kSkipBefore,
                             .norm = r + kGradNorm,
                             .scale = r + kScale,
                             .skip = r + kSkip,
                             .limit = b.op->as<Clip>().norm});
}

}  // namespace tessera

// What a step does to state: clear, squares, clip, adamw.
#include <algorithm>
#include <cmath>

#include "ir/state.h"
#include "kernels/adamw.h"
#include "kernels/fill.h"
#include "kernels/squares.h"
#include "runtime/bound_op.h"

namespace tessera {

void run_clear(const BoundOp& b) { kernels::clear(b.out[0]); }

void run_squares(const BoundOp& b) {
  const TensorView g = flat(b.in[0]);
  for (const MemberRange& m : b.members)
    if (m.counted)
      b.out[0].as<double>()[kSquares] += kernels::sum_of_squares(
          {g.as<float>() + m.first, DType::kF32, {m.last - m.first}}, b.workspace);
}

void run_clip(const BoundOp& b) {
  auto* r = b.out[0].as<double>();
  const double tokens = std::max(r[kLossTokens], 1.0), limit = b.op->attributes.number("norm");
  r[kGradNorm] = std::sqrt(r[kSquares]) / tokens;
  // The small number is PyTorch's and Megatron's, so that a clipped run equals theirs.
  constexpr double kTiny = 1e-6;
  const double clip = limit > 0 ? std::min(1.0, limit / (r[kGradNorm] + kTiny)) : 1.0;
  r[kScale] = clip / tokens;
  r[kSkip] = std::isfinite(r[kSquares]) && std::isfinite(r[kLossSum]) ? 0 : 1;
}

void run_adamw(const BoundOp& b) {
  const Attributes& a = b.op->attributes;
  const auto *step = b.in[1].as<double>(), *report = b.in[2].as<double>();
  const bool master = a.integer("master") != 0;
  kernels::AdamWStep s;
  s.learning_rate = step[kLearningRate];
  s.beta1 = a.number("beta1");
  s.beta2 = a.number("beta2");
  s.epsilon = a.number("epsilon");
  s.weight_decay = a.number("decay");
  s.step = static_cast<int64_t>(step[kStepNumber]);
  s.scale = report[kScale];
  s.skip = report[kSkip] != 0;
  kernels::AdamW w;
  w.weights = flat(master ? b.out[3] : b.out[0]);
  if (master) w.weights_low = flat(b.out[0]);
  w.m = flat(b.out[1]);
  w.v = flat(b.out[2]);
  w.gradient = flat(b.in[0]);
  for (const MemberRange& m : b.members) {
    const bool decays = b.values[static_cast<size_t>(m.weight)].decays;
    const kernels::UpdateRange range = {m.first, m.last, decays && s.weight_decay != 0};
    w.ranges = {&range, 1};
    kernels::adamw(w, s);
  }
}

}  // namespace tessera

// rms_norm: normalisation by the root mean square over the last axis (Zhang & Sennrich 2019), after
// an optional sum.
//   x = Σ terms + Σ biases,  y = x / sqrt(mean(x²) + epsilon) · gain
// Inputs: terms, biases (attributes `terms`, `biases`), gain. Outputs: y, stats (0 and the factor
// of each row, f32), and x where it is more than one term.
// rms_norm_grad: inputs x, stats, gain, dy and (attribute `add`) a gradient of x that it adds to.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer(const Attributes& a, const Inputs& in) {
  return infer_norm(a, in, 1);
}

std::vector<OutputSpec> infer_grad(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == (a.integer("add") ? 5u : 4u), "rms_norm_grad of {} inputs", in.size());
  CHECK(in[0]->shape == in[3]->shape, "rms_norm_grad: x and dy differ");
  return {{".gradient", in[0]->dtype, in[0]->shape},
          {".gain.gradient", sum_type(a), Shape{in[0]->shape[-1]}}};
}

ShardingRule sharding_grad(const Op& op, ValueSpan) {
  if (!op.attributes.integer("add")) return {{"btf", "bts", "f", "btf"}, {"btf", "f"}, "bt", {{3}}};
  return {{"btf", "bts", "f", "btf", "btf"}, {"btf", "f"}, "bt", {{3, 4}}};
}

void gradient(Gradients& g, const Op& op) { gradient_of_norm(g, op, OpKind::kRmsNormGrad); }

}  // namespace

const OpRule kRmsNormRule = {.kind = OpKind::kRmsNorm,
                             .name = "rms_norm",
                             .infer = infer,
                             .sharding = sharding_of_norm,
                             .gradient = gradient,
                             .repeat = Repeat::kCheap};
const OpRule kRmsNormGradRule = {.kind = OpKind::kRmsNormGrad,
                                 .name = "rms_norm_grad",
                                 .infer = infer_grad,
                                 .sharding = sharding_grad,
                                 .in_place = over_gradient};

}  // namespace tessera

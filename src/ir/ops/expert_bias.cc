// Rules of the output biases of experts. Splitting e is expert parallelism: every rank has all
// tokens and adds the terms of its experts, so y is partial.
#include "ir/ops/expert_bias.h"

#include "base/error.h"
#include "ir/builder.h"
#include "ir/operands.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

void check(int64_t experts, const Inputs& in) {
  const Shape &choice = in[0]->shape, &bias = in[2]->shape;
  CHECK(choice.rank() == 3 && in[1]->shape == choice && in[0]->dtype == DType::kI32 &&
            in[1]->dtype == DType::kF32 && bias.rank() == 2 && bias[0] <= experts,
        "expert_bias of choice {}, weights {}, bias {}", to_string(choice), to_string(in[1]->shape),
        to_string(bias));
}

std::vector<OutputSpec> infer(const Op& op, const Inputs& in) {
  CHECK(in.size() == 3, "expert_bias expects choice, weights and bias");
  check(op.as<ExpertBias>().experts, in);
  const Shape& choice = in[0]->shape;
  return {{"", in[2]->dtype, {choice[0], choice[1], in[2]->shape[1]}}};
}

std::vector<OutputSpec> infer_grad(const Op& op, const Inputs& in) {
  const ExpertBiasGrad& a = op.as<ExpertBiasGrad>();
  CHECK(in.size() == 4, "expert_bias_grad expects choice, weights, bias and dy");
  check(a.experts, in);
  const Shape &choice = in[0]->shape, &bias = in[2]->shape;
  CHECK(in[3]->shape == (Shape{choice[0], choice[1], bias[1]}), "expert_bias_grad with dy {}",
        to_string(in[3]->shape));
  std::vector<OutputSpec> out = {{".weights.gradient", DType::kF32, choice}};
  if (!a.frozen) out.push_back({".gradient", a.accum_dtype, bias});
  return out;
}

ShardingRule sharding(const Op&, ValueSpan) {
  return {{"btk", "btk", "eh"}, {"bth"}, "btkeh", {{1}, {2}}};
}
ShardingRule sharding_grad(const Op& op, ValueSpan) {
  // The gradient of the weights is linear in the bias, and the gradient of the bias is linear in
  // the weights.
  if (op.as<ExpertBiasGrad>().frozen)
    return {{"btk", "btk", "eh", "bth"}, {"btk"}, "btkeh", {{3}, {2}}};
  return {{"btk", "btk", "eh", "bth"}, {"btk", "eh"}, "btkeh", {{3}, {1, 2}}};
}

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  std::vector<ValueId> in = op.inputs;
  in.push_back(dy);
  const ValueId bias = input(op, ExpertBias::kBias);
  const bool frozen = g[bias].frozen;
  std::vector<ValueId> given = {kNone};
  if (!frozen) given.push_back(g.weight(bias));
  const ExpertBiasGrad a = {op.as<ExpertBias>().experts, frozen};
  g.add(input(op, ExpertBias::kWeights), g.builder().emit(a, op.origin, in, given)[0]);
}

}  // namespace

const OpRule ExpertBias::rule = {.infer = infer, .sharding = sharding, .gradient = gradient};
const OpRule ExpertBiasGrad::rule = {.infer = infer_grad, .sharding = sharding_grad};

}  // namespace tessera

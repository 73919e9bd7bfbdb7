// Rules of the experts. Splitting e is expert parallelism: every rank reads all tokens and adds the
// terms of its experts, so outputs are partial. Splitting i, the inner width, is tensor parallelism
// as in a dense layer. An op that saves the pairs of a token needs all experts that the token
// chose, so it is not split over e.
//
// The index string of a sharding rule names the dimensions: b sequences, t tokens, k choices of a
// token, e experts, i inner width, p gate and value, h hidden. A dimension that appears in an input
// and not in an output (e, i) is summed over, so splitting it makes the output partial; one that
// appears in both (b, t) is split on both sides.
//
// Without saved pairs the backward computes the up GEMM again from x; this is charged to the
// hardware FLOPs and not to the model's, so that MFU does not count it.
#include "ir/ops/experts.h"

#include <algorithm>

#include "base/error.h"
#include "ir/builder.h"
#include "ir/operands.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

// `bias`: the place of the operand up_bias; kNone: there is none.
void check(int64_t experts, const Inputs& in, int bias) {
  const Shape &x = in[0]->shape, &up = in[3]->shape, &down = in[4]->shape;
  CHECK(x.rank() == 3 && up.rank() == 4 && down.rank() == 3 && up[2] == 2 && up[3] == x[2] &&
            down[1] == x[2] && up[0] == down[0] && up[1] == down[2] && up[0] <= experts,
        "experts of x {}, up {}, down {}", to_string(x), to_string(up), to_string(down));
  CHECK(in[1]->dtype == DType::kI32 && in[2]->dtype == DType::kF32 &&
            in[1]->shape == in[2]->shape && in[1]->shape.rank() == 3,
        "experts with choice {} and weights {}", to_string(in[1]->shape), to_string(in[2]->shape));
  CHECK(bias == kNone || in[bias]->shape == (Shape{up[0], up[1], 2}), "experts with up_bias {}",
        to_string(in[bias]->shape));
}

std::vector<OutputSpec> infer(const Op& op, const Inputs& in) {
  const Experts& a = op.as<Experts>();
  CHECK(in.size() == input_count(a), "experts has the inputs x, choice, weights, up and down");
  check(a.experts, in, input_index(a, Experts::kUpBias));
  const Shape &x = in[0]->shape, &choice = in[1]->shape;
  std::vector<OutputSpec> out = {{"", in[0]->dtype, x}};
  if (a.saves) out.push_back({".pairs", in[0]->dtype, {x[0], x[1], choice[2], in[3]->shape[1], 2}});
  return out;
}

std::vector<OutputSpec> infer_grad(const Op& op, const Inputs& in) {
  const ExpertsGrad& a = op.as<ExpertsGrad>();
  CHECK(in.size() == input_count(a) && in[5]->shape == in[0]->shape,
        "experts_grad has the inputs x, choice, weights, up, down and dy");
  check(a.experts, in, input_index(a, ExpertsGrad::kUpBias));
  std::vector<OutputSpec> out = {{".gradient", in[0]->dtype, in[0]->shape},
                                 {".weights.gradient", DType::kF32, in[2]->shape}};
  if (a.frozen) return out;
  out.push_back({".up.gradient", a.accum_dtype, in[3]->shape});
  out.push_back({".down.gradient", a.accum_dtype, in[4]->shape});
  if (a.biased)
    out.push_back({".up_bias.gradient", a.accum_dtype, {in[3]->shape[0], in[3]->shape[1], 2}});
  return out;
}

ShardingRule sharding(const Op& op, ValueSpan) {
  const Experts& a = op.as<Experts>();
  ShardingRule r{
      {"bth", "btk", "btk", "eiph", "ehi"}, {"bth"}, a.saves ? "btki" : "btkei", {{2}, {4}}};
  if (a.biased) r.inputs.push_back("eip");
  if (!a.saves) return r;
  r.outputs.push_back("btkip");
  r.linear.clear();  // the pairs are linear in no input
  return r;
}

ShardingRule sharding_grad(const Op& op, ValueSpan) {
  const ExpertsGrad& a = op.as<ExpertsGrad>();
  ShardingRule r{{"bth", "btk", "btk", "eiph", "ehi", "bth"},
                 {"bth", "btk", "eiph", "ehi"},
                 a.saved ? "btki" : "btkei",
                 {{5}}};
  if (a.saved) r.inputs.push_back("btkip");
  if (a.biased) r.inputs.push_back("eip");
  if (a.biased) r.outputs.push_back("eip");
  if (a.frozen) r.outputs.resize(2);
  return r;
}

void gradient(Gradients& g, const Op& op) {
  const Experts& a = op.as<Experts>();
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  const ValueId up = input(op, Experts::kUp), down = input(op, Experts::kDown);
  const ValueId bias = input(op, Experts::kUpBias);
  std::vector<ValueId> in(op.inputs.begin(), op.inputs.begin() + Experts::kUpBias);
  in.push_back(dy);
  if (a.saves) in.push_back(output(op, Experts::kPairs));
  if (a.biased) in.push_back(bias);
  const bool frozen = g[up].frozen && g[down].frozen && (!a.biased || g[bias].frozen);
  std::vector<ValueId> given = {kNone, kNone};
  if (!frozen) given.insert(given.end(), {g.weight(up), g.weight(down)});
  if (!frozen && a.biased) given.push_back(g.weight(bias));
  const auto out = g.builder().emit(ExpertsGrad{a.experts, a.form, a.saves, frozen, a.biased},
                                    op.origin, in, given);
  g.add(op.inputs[0], out[0]);
  g.add(input(op, Experts::kWeights), out[1]);
}

// The GEMMs of the forward as batches over the experts, with rows divided evenly among the experts.
struct Products {
  GemmShape up, down;
};
Products products_of(int64_t experts, const Op& op, ValueSpan values) {
  const Value &x = values[op.inputs[0]], &choice = values[op.inputs[1]];
  const Shape& up = values[op.inputs[3]].shape;
  const int64_t pairs = choice.shape.elements(), rows = (pairs + experts - 1) / experts;
  const auto shape = [&](int64_t n, int64_t k) {
    return GemmShape{up[0], rows, n, k, x.dtype, GemmKind::kForward};
  };
  return {shape(2 * up[1], up[3]), shape(up[3], up[1])};
}

GemmShape input_gradient(GemmShape s) {
  std::swap(s.n, s.k);
  s.kind = GemmKind::kInputGradient;
  return s;
}
GemmShape weight_gradient(GemmShape s) {
  std::swap(s.m, s.k);
  s.kind = GemmKind::kWeightGradient;
  return s;
}

Cost cost(const Op& op, ValueSpan values) {
  const Products p = products_of(op.as<Experts>().experts, op, values);
  return product_cost(op, values, Work::kGrouped, {p.up, p.down});
}

Cost cost_grad(const Op& op, ValueSpan values) {
  const ExpertsGrad& a = op.as<ExpertsGrad>();
  const Products p = products_of(a.experts, op, values);
  std::vector<GemmShape> all = {input_gradient(p.down), input_gradient(p.up)};
  if (!a.frozen) all.insert(all.end(), {weight_gradient(p.down), weight_gradient(p.up)});
  if (!a.saved) all.insert(all.begin(), p.up);
  Cost c = product_cost(op, values, Work::kGrouped, std::move(all));
  if (!a.saved) c.flops.model = c.flops.square = c.flops.hardware - p.up.flops();
  return c;
}

}  // namespace

const OpRule Experts::rule = {.infer = infer,
                              .sharding = sharding,
                              .gradient = gradient,
                              .cost = cost,
                              .prepared = Prepared::kExperts,
                              .time = TimeGroup::kMatrix};
const OpRule ExpertsGrad::rule = {.infer = infer_grad,
                                  .sharding = sharding_grad,
                                  .cost = cost_grad,
                                  .prepared = Prepared::kExperts,
                                  .time = TimeGroup::kMatrix};

}  // namespace tessera

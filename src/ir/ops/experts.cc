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
// Adapters (r and s: the LoRA ranks for up and for down) are split along the dimensions that they
// share with their matrix. A of up and B of down have no i, so their gradients are partial if i is
// split.
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

// CHECKs that a and b have the shapes of A and B of an adapter of w [E, outputs…, inputs].
void check_adapters(const Shape& w, const Value& a, const Value& b) {
  std::vector<int64_t> outputs = w.dims();
  outputs.back() = a.shape[1];
  CHECK(a.shape == (Shape{w[0], a.shape[1], w[-1]}) && b.shape == Shape(outputs),
        "experts {} have an adapter with A {} and B {}", to_string(w), to_string(a.shape),
        to_string(b.shape));
}

// CHECKs the operands that Experts and ExpertsGrad have in common.
template <class A>
void check(const A& of, const Inputs& in) {
  const int64_t experts = of.experts;
  const int bias = input_index(of, A::kUpBias);
  const Shape &x = in[0]->shape, &up = in[3]->shape, &down = in[4]->shape;
  CHECK(x.rank() == 3 && up.rank() == 4 && down.rank() == 3 && up[2] == 2 && up[3] == x[2] &&
            down[1] == x[2] && up[0] == down[0] && up[1] == down[2] && up[0] <= experts,
        "experts of x {}, up {}, down {}", to_string(x), to_string(up), to_string(down));
  CHECK(in[1]->dtype == DType::kI32 && in[2]->dtype == DType::kF32 &&
            in[1]->shape == in[2]->shape && in[1]->shape.rank() == 3,
        "experts with choice {} and weights {}", to_string(in[1]->shape), to_string(in[2]->shape));
  CHECK(bias == kNone || in[bias]->shape == (Shape{up[0], up[1], 2}), "experts with up_bias {}",
        to_string(in[bias]->shape));
  if (const int a = input_index(of, A::kUpA); a != kNone) check_adapters(up, *in[a], *in[a + 1]);
  if (const int a = input_index(of, A::kDownA); a != kNone)
    check_adapters(down, *in[a], *in[a + 1]);
}

std::vector<OutputSpec> infer(const Op& op, const Inputs& in) {
  const Experts& a = op.as<Experts>();
  CHECK(in.size() == input_count(a), "experts has {} inputs, expected {}", in.size(),
        input_count(a));
  check(a, in);
  const Shape &x = in[0]->shape, &choice = in[1]->shape;
  std::vector<OutputSpec> out = {{"", in[0]->dtype, x}};
  if (a.saves) out.push_back({".pairs", in[0]->dtype, {x[0], x[1], choice[2], in[3]->shape[1], 2}});
  return out;
}

std::vector<OutputSpec> infer_grad(const Op& op, const Inputs& in) {
  const ExpertsGrad& a = op.as<ExpertsGrad>();
  CHECK(in.size() == input_count(a) && in[5]->shape == in[0]->shape,
        "experts_grad expects x, choice, weights, up, down and dy");
  check(a, in);
  std::vector<OutputSpec> out = {{".gradient", in[0]->dtype, in[0]->shape},
                                 {".weights.gradient", DType::kF32, in[2]->shape}};
  const auto add = [&](const char* name, ExpertsGrad::In of) {
    out.push_back({name, a.accum_dtype, in[input_index(a, of)]->shape});
  };
  ExpertsGrad::outputs(a, [&](ExpertsGrad::Out slot, int64_t count) {
    if (count == 0) return;
    switch (slot) {
      case ExpertsGrad::kDx:
      case ExpertsGrad::kDWeights:
        return;
      case ExpertsGrad::kDUp:
        return add(".up.gradient", ExpertsGrad::kUp);
      case ExpertsGrad::kDDown:
        return add(".down.gradient", ExpertsGrad::kDown);
      case ExpertsGrad::kDUpBias:
        return add(".up_bias.gradient", ExpertsGrad::kUpBias);
      case ExpertsGrad::kDUpA:
        return add(".up_a.gradient", ExpertsGrad::kUpA);
      case ExpertsGrad::kDUpB:
        return add(".up_b.gradient", ExpertsGrad::kUpB);
      case ExpertsGrad::kDDownA:
        return add(".down_a.gradient", ExpertsGrad::kDownA);
      case ExpertsGrad::kDDownB:
        return add(".down_b.gradient", ExpertsGrad::kDownB);
    }
  });
  return out;
}

void append(std::vector<std::string>& labels, std::initializer_list<const char*> more) {
  labels.insert(labels.end(), more.begin(), more.end());
}

ShardingRule sharding(const Op& op, ValueSpan) {
  const Experts& a = op.as<Experts>();
  ShardingRule r{{"bth", "btk", "btk", "eiph", "ehi"}, {"bth"}, a.saves ? "btki" : "btkei", {{2}}};
  if (a.biased) append(r.inputs, {"eip"});
  if (a.adapters.up) append(r.inputs, {"erh", "eipr"});
  if (a.adapters.down) append(r.inputs, {"esi", "ehs"});
  // down + scale · B A is linear in down with one of its adapters.
  if (const int down_a = input_index(a, Experts::kDownA); down_a != kNone)
    for (const int adapter : {down_a, down_a + 1}) r.linear.push_back({Experts::kDown, adapter});
  else
    r.linear.push_back({Experts::kDown});
  if (!a.saves) return r;
  r.outputs.push_back("btkip");
  r.linear.clear();  // the pairs are linear in no input
  return r;
}

ShardingRule sharding_grad(const Op& op, ValueSpan) {
  const ExpertsGrad& a = op.as<ExpertsGrad>();
  ShardingRule r{{"bth", "btk", "btk", "eiph", "ehi", "bth"},
                 {"bth", "btk"},
                 a.saved ? "btki" : "btkei",
                 {{5}}};
  if (a.saved) append(r.inputs, {"btkip"});
  if (a.biased) append(r.inputs, {"eip"});
  if (a.adapters.up) append(r.inputs, {"erh", "eipr"});
  if (a.adapters.down) append(r.inputs, {"esi", "ehs"});
  if (a.trains_experts()) append(r.outputs, {"eiph", "ehi"});
  if (a.trains_experts() && a.biased) append(r.outputs, {"eip"});
  if (a.adapters.up && !a.frozen) append(r.outputs, {"erh", "eipr"});
  if (a.adapters.down && !a.frozen) append(r.outputs, {"esi", "ehs"});
  return r;
}

// Returns the weights that the op trains, in the order of the outputs of ExpertsGrad.
std::vector<ValueId> trained(const Op& op) {
  std::vector<ValueId> weights;
  const Experts& a = op.as<Experts>();
  const auto add = [&](std::initializer_list<Experts::In> slots) {
    for (const Experts::In slot : slots) weights.push_back(input(op, slot));
  };
  if (!a.adapters.any()) add({Experts::kUp, Experts::kDown});
  if (!a.adapters.any() && a.biased) add({Experts::kUpBias});
  if (a.adapters.up) add({Experts::kUpA, Experts::kUpB});
  if (a.adapters.down) add({Experts::kDownA, Experts::kDownB});
  return weights;
}

void gradient(Gradients& g, const Op& op) {
  const Experts& a = op.as<Experts>();
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  std::vector<ValueId> in(op.inputs.begin(), op.inputs.begin() + Experts::kUpBias);
  in.push_back(dy);
  if (a.saves) in.push_back(output(op, Experts::kPairs));
  in.insert(in.end(), op.inputs.begin() + Experts::kUpBias, op.inputs.end());
  const std::vector<ValueId> weights = trained(op);
  const bool frozen =
      std::all_of(weights.begin(), weights.end(), [&](ValueId w) { return g[w].frozen; });
  std::vector<ValueId> given = {kNone, kNone};
  for (const ValueId w : weights)
    if (!frozen) given.push_back(g.weight(w));
  const auto out = g.builder().emit(
      ExpertsGrad{a.experts, a.form, a.saves, frozen, a.biased, a.adapters}, op.origin, in, given);
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

// Returns the shape of the GEMM B A of each adapter. Its matrix is [E, outputs…, inputs].
template <class A>
std::vector<GemmShape> changes_of(const Op& op, ValueSpan values) {
  std::vector<GemmShape> all;
  const auto add = [&](typename A::In of, typename A::In adapter) {
    if (input_index(op.as<A>(), adapter) == kNone) return;
    const Shape &w = values[input(op, of)].shape, &a = values[input(op, adapter)].shape;
    all.push_back({w[0], w.product(1, w.rank() - 1), w[-1], a[1], values[op.inputs[0]].dtype,
                   GemmKind::kForward});
  };
  add(A::kUp, A::kUpA);
  add(A::kDown, A::kDownA);
  return all;
}

double flops_of(const std::vector<GemmShape>& products) {
  double flops = 0;
  for (const GemmShape& s : products) flops += s.flops();
  return flops;
}

Cost cost(const Op& op, ValueSpan values) {
  const Products p = products_of(op.as<Experts>().experts, op, values);
  std::vector<GemmShape> all = changes_of<Experts>(op, values);
  all.insert(all.end(), {p.up, p.down});
  return product_cost(op, values, Work::kGrouped, std::move(all));
}

// Returns the GEMMs that the backward recomputes: B A of each adapter and, without saved pairs, the
// up GEMM.
std::vector<GemmShape> repeated(const Op& op, ValueSpan values, const Products& p) {
  std::vector<GemmShape> all = changes_of<ExpertsGrad>(op, values);
  if (!op.as<ExpertsGrad>().saved) all.push_back(p.up);
  return all;
}

// The GEMMs of dB = scale · dW Aᵀ and dA = scale · Bᵀ dW have the same FLOPs as B A.
Cost cost_grad(const Op& op, ValueSpan values) {
  const ExpertsGrad& a = op.as<ExpertsGrad>();
  const Products p = products_of(a.experts, op, values);
  const std::vector<GemmShape> again = repeated(op, values, p);
  std::vector<GemmShape> all = again;
  all.insert(all.end(), {input_gradient(p.down), input_gradient(p.up)});
  const bool down = a.trains_experts() || a.adapters.down, up = a.trains_experts() || a.adapters.up;
  if (!a.frozen && down) all.push_back(weight_gradient(p.down));
  if (!a.frozen && up) all.push_back(weight_gradient(p.up));
  for (const GemmShape& change : changes_of<ExpertsGrad>(op, values))
    if (!a.frozen) all.insert(all.end(), {weight_gradient(change), input_gradient(change)});
  Cost c = product_cost(op, values, Work::kGrouped, std::move(all));
  c.flops.model = c.flops.square = c.flops.hardware - flops_of(again);
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

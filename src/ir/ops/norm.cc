// Rules of layer norm and RMS norm, and of their gradients. The statistics need the whole last
// dimension, so only rows can be split; dgain and dbias are then partial sums over rows.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/operands.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

// A is Norm or RmsNorm.
template <class A>
std::vector<OutputSpec> infer(const Op& op, const Inputs& in) {
  const A& a = op.as<A>();
  CHECK(in.size() == input_count(a), "{} of {} inputs", A::kName, in.size());
  const Shape& x = in[0]->shape;
  for (size_t i = 1; i < in.size(); ++i)
    CHECK(in[i]->shape == (static_cast<int64_t>(i) < a.terms ? x : Shape{x[-1]}),
          "{} of {} has an input {}", A::kName, to_string(x), to_string(in[i]->shape));
  std::vector<int64_t> stats = x.dims();
  stats.back() = 2;
  std::vector<OutputSpec> out = {{"", in[0]->dtype, x}, {".stats", DType::kF32, Shape(stats)}};
  if (a.sums()) out.push_back({".sum", in[0]->dtype, x});
  return out;
}

template <class A>
ShardingRule sharding(const Op& op, ValueSpan) {
  const A& a = op.as<A>();
  ShardingRule r;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    r.inputs.push_back(static_cast<int64_t>(i) < a.terms ? "btf" : "f");
  r.outputs = {"btf", "bts"};
  if (a.sums()) r.outputs.push_back("btf");
  r.splits = "bt";
  return r;
}

template <class A, class Grad>
void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  CHECK(!op.as<A>().sums(), "a norm with several terms must not be differentiated");
  // The gradient that x has from other readers (the residual) is added within this op instead of by
  // a sum.
  const ValueId x = op.inputs[0], sofar = g.take(x);
  std::vector<ValueId> in = {x, op.outputs[1], op.inputs[1], dy};
  if (sofar != kNone) in.push_back(sofar);
  std::vector<ValueId> out = {kNone};
  for (size_t i = 1; i < op.inputs.size(); ++i) out.push_back(g.weight(op.inputs[i]));
  Grad a = {.add = sofar != kNone};
  if constexpr (requires { a.unit_offset; }) a.unit_offset = op.as<A>().unit_offset;
  g.add(x, g.builder().emit(a, op.origin, in, out)[0]);
}

// Grad is NormGrad or RmsNormGrad.
template <class Grad>
std::vector<OutputSpec> infer_grad(const Op& op, const Inputs& in) {
  const Grad& a = op.as<Grad>();
  CHECK(in.size() == input_count(a), "{} of {} inputs", Grad::kName, in.size());
  CHECK(in[0]->shape == in[3]->shape, "{}: x and dy differ", Grad::kName);
  const Shape vector{in[0]->shape[-1]};
  std::vector<OutputSpec> out = {{".gradient", in[0]->dtype, in[0]->shape},
                                 {".gain.gradient", a.accum_dtype, vector}};
  if constexpr (std::is_same_v<Grad, NormGrad>)
    out.push_back({".bias.gradient", a.accum_dtype, vector});
  return out;
}

template <class Grad>
ShardingRule sharding_grad(const Op& op, ValueSpan) {
  ShardingRule r{{"btf", "bts", "f", "btf"}, {"btf", "f"}, "bt", {{3}}};
  if constexpr (std::is_same_v<Grad, NormGrad>) r.outputs.push_back("f");
  if (!op.as<Grad>().add) return r;
  r.inputs.push_back("btf");
  r.linear = {{3, 4}};
  return r;
}

// dx replaces the value it is added to, or else dy.
template <class Grad>
InPlace over_gradient(const Op& op) {
  return {op.as<Grad>().add ? Grad::kSoFar : Grad::kDy, Grad::kDx};
}

}  // namespace

const OpRule Norm::rule = {.infer = infer<Norm>,
                           .sharding = sharding<Norm>,
                           .gradient = gradient<Norm, NormGrad>,
                           .repeat = Repeat::kCheap};
const OpRule NormGrad::rule = {.infer = infer_grad<NormGrad>,
                               .sharding = sharding_grad<NormGrad>,
                               .in_place = over_gradient<NormGrad>};
const OpRule RmsNorm::rule = {.infer = infer<RmsNorm>,
                              .sharding = sharding<RmsNorm>,
                              .gradient = gradient<RmsNorm, RmsNormGrad>,
                              .repeat = Repeat::kCheap};
const OpRule RmsNormGrad::rule = {.infer = infer_grad<RmsNormGrad>,
                                  .sharding = sharding_grad<RmsNormGrad>,
                                  .in_place = over_gradient<RmsNormGrad>};

}  // namespace tessera

// Rules of sum, whose gradient is dy for each term, and of the gradient of a bias.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer(const Op& op, const Inputs& in) {
  const int64_t terms = op.as<Sum>().terms;
  CHECK(terms >= 1 && terms <= std::ssize(in), "sum of {} terms", terms);
  const Shape& y = in[0]->shape;
  for (int64_t i = 1; i < std::ssize(in); ++i) {
    const Shape& s = in[i]->shape;
    for (int d = 1; d <= s.rank(); ++d)
      CHECK(s[-d] == y[-d] && (i >= terms || s.rank() == y.rank()), "sum of {} and {}",
            to_string(y), to_string(s));
  }
  return {{"", in[0]->dtype, y}};
}

Shape trailing(const Shape& s, int64_t dims) {
  return Shape(std::vector<int64_t>(s.dims().end() - dims, s.dims().end()));
}

std::vector<OutputSpec> infer_bias(const Op& op, const Inputs& in) {
  const BiasGrad& a = op.as<BiasGrad>();
  CHECK(in.size() == 1 && a.dims <= in[0]->shape.rank(), "bias_grad expects dy");
  const OutputSpec one = {".gradient", a.accum_dtype, trailing(in[0]->shape, a.dims)};
  return std::vector<OutputSpec>(a.count, one);
}

std::string letters(int rank) { return std::string("abcdefgh").substr(0, rank); }

// A bias has the last labels of the sum. The op is linear in all operands together: a bias that is
// added to partial terms must itself be partial, otherwise it would count once per rank.
ShardingRule sharding(const Op& op, ValueSpan values) {
  ShardingRule r;
  r.linear.emplace_back();
  const std::string all = letters(values[op.outputs[0]].shape.rank());
  for (int i = 0; i < std::ssize(op.inputs); ++i) {
    const int rank = values[op.inputs[i]].shape.rank();
    r.inputs.push_back(all.substr(all.size() - rank));
    r.linear[0].push_back(i);
  }
  r.outputs = {all};
  r.splits = all;
  return r;
}
ShardingRule sharding_bias(const Op& op, ValueSpan values) {
  const std::string all = letters(values[op.inputs[0]].shape.rank());
  const std::string out = all.substr(all.size() - op.as<BiasGrad>().dims);
  return {{all}, std::vector<std::string>(op.outputs.size(), out), all, {{0}}};
}

// Every term has the gradient dy itself. A bias is broadcast over the leading dimensions, so its
// gradient is the sum of dy over them: one op for all biases, which have the same gradient.
void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  const int64_t terms = op.as<Sum>().terms;
  std::vector<ValueId> biases;
  for (size_t i = terms; i < op.inputs.size(); ++i) biases.push_back(g.weight(op.inputs[i]));
  if (!biases.empty()) {
    const int64_t dims = g[op.inputs[terms]].shape.rank();
    const auto count = std::ssize(biases);
    g.builder().emit(BiasGrad{.dims = dims, .count = count}, op.origin, {dy}, biases);
  }
  for (int64_t i = 0; i < terms; ++i)
    if (g.wanted(op.inputs[i])) g.add(op.inputs[i], dy);
}

}  // namespace

const OpRule Sum::rule = {
    .infer = infer, .sharding = sharding, .gradient = gradient, .in_place = over_first};
const OpRule BiasGrad::rule = {.infer = infer_bias, .sharding = sharding_bias};

}  // namespace tessera

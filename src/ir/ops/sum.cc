// sum: y = Σ terms + Σ biases; the first `terms` inputs have y's shape, the rest are biases over
// y's trailing dimensions. Its gradient is dy itself for every term.
// bias_grad: db[f] += Σ_rows dy[…, f] for `count` biases of `dims` trailing dimensions at once.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer(const Attributes& a, const Inputs& in) {
  const auto terms = static_cast<size_t>(a.integer("terms"));
  CHECK(terms >= 1 && terms <= in.size(), "sum of {} terms", terms);
  const Shape& y = in[0]->shape;
  for (size_t i = 1; i < in.size(); ++i) {
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

std::vector<OutputSpec> infer_bias(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 1 && a.integer("dims") <= in[0]->shape.rank(), "bias_grad takes dy");
  const OutputSpec one = {".gradient", sum_type(a), trailing(in[0]->shape, a.integer("dims"))};
  return std::vector<OutputSpec>(static_cast<size_t>(a.integer("count")), one);
}

std::string letters(int rank) {
  return std::string("abcdefgh").substr(0, static_cast<size_t>(rank));
}

ShardingRule sharding(const Op& op, ValueSpan values) {
  ShardingRule r;
  r.linear.emplace_back();
  const std::string all = letters(values[op.outputs[0]].shape.rank());
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const auto rank = static_cast<size_t>(values[op.inputs[i]].shape.rank());
    r.inputs.push_back(all.substr(all.size() - rank));
    r.linear[0].push_back(static_cast<int>(i));
  }
  r.outputs = {all};
  r.splits = all;
  return r;
}
ShardingRule sharding_bias(const Op& op, ValueSpan values) {
  const std::string all = letters(values[op.inputs[0]].shape.rank());
  const std::string out =
      all.substr(all.size() - static_cast<size_t>(op.attributes.integer("dims")));
  return {{all}, std::vector<std::string>(op.outputs.size(), out), all, {{0}}};
}

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  const auto terms = static_cast<size_t>(op.attributes.integer("terms"));
  std::vector<ValueId> biases;
  for (size_t i = terms; i < op.inputs.size(); ++i) biases.push_back(g.weight(op.inputs[i]));
  if (!biases.empty()) {
    const int64_t dims = g[op.inputs[terms]].shape.rank();
    g.builder().emit(OpKind::kBiasGrad, op.origin,
                     {{"dims", dims}, {"count", static_cast<int64_t>(biases.size())}}, {dy},
                     biases);
  }
  for (size_t i = 0; i < terms; ++i)
    if (g.wanted(op.inputs[i])) g.add(op.inputs[i], dy);
}

}  // namespace

const OpRule kSumRule = {.kind = OpKind::kSum,
                         .name = "sum",
                         .infer = infer,
                         .sharding = sharding,
                         .gradient = gradient,
                         .in_place = over_first};
const OpRule kBiasGradRule = {
    .kind = OpKind::kBiasGrad, .name = "bias_grad", .infer = infer_bias, .sharding = sharding_bias};

}  // namespace tessera

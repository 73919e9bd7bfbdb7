// Appends ops to a list: shapes and dtypes of outputs come from the op's rule, shardings from its
// signature. Also inserts conversions, and collects the gradients of values during differentiation.
#include "ir/builder.h"

#include <algorithm>

#include "base/error.h"
#include "ir/names.h"
#include "ir/signature.h"

namespace tessera {

ValueId Builder::value(const std::string& name, DType dtype, Shape shape, Role role, uint8_t per) {
  Value v;
  v.name = prefix_.empty() ? name : prefix_ + "." + name;
  v.dtype = dtype;
  v.shape = std::move(shape);
  v.role = role;
  v.indexed_by = per;
  return graph_.values.push_back(std::move(v));
}

std::vector<ValueId> Builder::emit(OpAttributes attributes, const std::string& origin,
                                   std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
  Op op;
  op.origin = prefix_.empty() ? origin : prefix_ + "." + origin;
  op.attributes = std::move(attributes);
  op.inputs = std::move(inputs);
  Inputs in;
  for (const ValueId v : op.inputs) in.push_back(&graph_[v]);
  const std::vector<OutputSpec> specs = rule_of(op.kind()).infer(op, in);
  outputs.resize(specs.size(), kNone);
  const std::vector<ValueId> given = outputs;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (outputs[i] == kNone)
      outputs[i] = value(origin + specs[i].name, specs[i].dtype, specs[i].shape, role_, per_);
    CHECK(graph_[outputs[i]].shape == specs[i].shape, "{}: output {} is {}, but its rule gives {}",
          op.origin, i, to_string(graph_[outputs[i]].shape), to_string(specs[i].shape));
  }
  op.outputs = outputs;
  if (places_) place(op, given);
  ops_.push_back(std::move(op));
  return outputs;
}

void Builder::place(const Op& op, const std::vector<ValueId>& given) {
  const std::vector<AxisKind> axes = divided_axes(graph_.mesh);
  if (axes.empty() || given == op.outputs) return;
  // During differentiation, operands already have shardings; outputs get those of the first
  // signature that fits the operands.
  for (const AxisKind a : axes) {
    const auto s = fitting(op, given, graph_.values, a);
    CHECK(s.has_value(), "{}: no signature of {} fits its operands on axis {}", op.origin,
          name_of(op.kind()), name_of(a));
    for (size_t i = 0; i < given.size(); ++i)
      if (given[i] == kNone) graph_[op.outputs[i]].sharding.place[a] = s->outputs[i];
  }
  // The operands that kContext divides are all divided in the same way.
  ContextCut cut = ContextCut::kParts;
  for (const ValueId v : op.inputs) cut = std::max(cut, graph_[v].sharding.cut);
  for (size_t i = 0; i < given.size(); ++i)
    if (Sharding& s = graph_[op.outputs[i]].sharding; given[i] == kNone)
      s.cut = s.place[AxisKind::kContext] >= 0 ? cut : ContextCut::kParts;
  for (const ValueId v : op.outputs) localise(graph_[v], graph_.mesh);
}

// Converts one axis after another. Axes that need the same conversion share one op over their joint
// group: one collective instead of several.
ValueId Builder::convert(ValueId v, const Sharding& to) {
  for (const AxisKind a : Enumerators<AxisKind>()) {
    const Value x = graph_[v];
    const int8_t from = x.sharding.place[a], wanted = to.place[a];
    if (from == wanted) continue;
    const auto way = conversion(from, wanted);
    CHECK(way.has_value(), "{} cannot be converted from placement {} to {} on axis {}", x.name,
          from, wanted, name_of(a));
    Value y = x;
    y.name += way->suffix;
    y.role = role_;
    y.indexed_by = per_;
    y.decays = y.frozen = false;
    y.policy = 0;
    y.initial = {};
    y.parts.clear();
    y.parent.reset();
    y.copy = CopyKind::kOriginal;
    y.of = kNone;
    GroupRef over;
    for (const AxisKind b : Enumerators<AxisKind>()) {
      if (b < a || x.sharding.place[b] != from || to.place[b] != wanted) continue;
      y.sharding.place[b] = wanted;
      if (b == AxisKind::kContext) y.sharding.cut = to.cut;
      if (graph_.mesh[b] == 1) continue;
      over.add(b);
    }
    localise(y, graph_.mesh);
    const ValueId converted = graph_.values.push_back(std::move(y));
    Op op;
    op.origin = x.name;
    op.attributes = way->attributes;
    *over_of(op.attributes) = over;
    op.inputs = {v};
    op.outputs = {converted};
    v = converted;
    ops_.push_back(std::move(op));
  }
  return v;
}

ValueId Gradients::of(ValueId v) const {
  for (const auto& [value, gradient] : of_)
    if (value == v) return gradient;
  return kNone;
}

// A value that is read several times gets the sum of the gradients of its reads. The gradient has
// the dual sharding: a shared value has partial gradients, and so on.
void Gradients::add(ValueId v, ValueId gradient) {
  CHECK(gradient != kNone, "no gradient for {}", builder_[v].name);
  CHECK(builder_[gradient].sharding == dual(builder_[v].sharding),
        "the sharding of {} is not the dual of that of {}", builder_[gradient].name,
        builder_[v].name);
  for (auto& [value, total] : of_) {
    if (value != v) continue;
    total =
        builder_.emit_one(Sum{.terms = 2, .of_gradients = true}, kGradientSum, {total, gradient});
    return;
  }
  of_.emplace_back(v, gradient);
}

ValueId Gradients::take(ValueId v) {
  for (size_t i = 0; i < of_.size(); ++i)
    if (of_[i].first == v) {
      const ValueId g = of_[i].second;
      of_.erase(of_.begin() + i);
      return g;
    }
  return kNone;
}

bool Gradients::wanted(ValueId v) const {
  const Role r = builder_[v].role;
  return r == Role::kActivation || r == Role::kHidden || r == Role::kScratch || r == Role::kWeight;
}

ValueId Gradients::weight(ValueId w) {
  const Value weight = builder_[w];
  CHECK(weight.role == Role::kWeight, "{} is not a weight", weight.name);
  if (weight.frozen) {  // some ops write it along with other outputs; it is never read
    const ValueId v =
        builder_.value(weight.name + ".unused", DType::kF32, weight.shape, Role::kScratch, kOne);
    builder_.graph()[v].sharding = dual(weight.sharding);
    localise(builder_.graph()[v], builder_.graph().mesh);
    return v;
  }
  // A weight has one gradient value, to which all its uses add.
  const ValueVector& all = builder_.graph().values;
  for (const ValueId v : all.ids())
    if (all[v].role == Role::kGradient && all[v].of == w) return v;
  Value g = weight;
  g.name += kGradientSuffix;
  g.of = w;
  g.dtype = DType::kF32;
  g.role = Role::kGradient;
  g.clips.clear();
  g.sharding = dual(weight.sharding);
  return builder_.graph().values.push_back(std::move(g));
}

ValueId Gradients::report() const {
  const ValueVector& all = builder_.graph().values;
  for (const ValueId v : all.ids())
    if (all[v].role == Role::kReport) return v;
  CHECK(false, "the graph has no report");
}

}  // namespace tessera

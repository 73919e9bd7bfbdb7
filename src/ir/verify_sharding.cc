// Verifies that the places of each op's operands agree with its sharding rule.
#include <fmt/format.h>

#include <algorithm>

#include "ir/names.h"
#include "ir/signature.h"
#include "ir/verify.h"

namespace tessera {
namespace {

using Findings = std::vector<std::string>;

std::string place_text(int8_t place) {
  const auto named = name_of_place(place);
  return named ? std::string(*named) : fmt::format("split {}", place);
}

// What a step does to state works on parts of whole frames, which ZeRO divides, not the op; a
// message carries a value as it is placed.
bool takes_any_place(const Op& op) { return rule_of(op).effects.flat_state || is_message(op); }

// On the axes that it names a conversion leads from the one place to the other; on all others it
// changes nothing. Whole frames, of one dimension, are not at places.
bool converts(const Op& op, ValueSpan values, size_t axis, bool same_bytes) {
  const Value &x = values[op.inputs[0]], &y = values[op.outputs[0]];
  if (x.shape.rank() == 1) return true;
  const int8_t from = x.sharding.place[axis], to = y.sharding.place[axis];
  const GroupRef& over = *over_of(op.attributes);
  if (!over.has(static_cast<AxisKind>(axis))) return from == to || fits(x, from, to, same_bytes);
  if (op.is<Share>()) return from == kReplicated && to == kShared;
  auto way = conversion(from, to);
  if (!way) return false;
  *over_of(way->attributes) = over;
  return way->attributes == op.attributes;
}

Findings verify_labels(const Op& op, ValueSpan values, const std::string& name) {
  const ShardingRule rule = rule_of(op.kind()).sharding(op, values);
  if (rule.inputs.size() != op.inputs.size() || rule.outputs.size() != op.outputs.size())
    return {fmt::format("{}: its sharding rule labels {} inputs and {} outputs of {} and {}", name,
                        rule.inputs.size(), rule.outputs.size(), op.inputs.size(),
                        op.outputs.size())};
  Findings findings;
  const auto look = [&](ValueId id, const std::string& labels) {
    const Value& v = values[id];
    if (static_cast<int>(labels.size()) != v.shape.rank())
      findings.push_back(fmt::format("{}: its sharding rule labels {} of {} as '{}'", name, v.name,
                                     to_string(v.shape), labels));
  };
  for (size_t i = 0; i < op.inputs.size(); ++i) look(op.inputs[i], rule.inputs[i]);
  for (size_t i = 0; i < op.outputs.size(); ++i) look(op.outputs[i], rule.outputs[i]);
  return findings;
}

}  // namespace

Findings verify_sharding(const Op& op, ValueSpan values, const Mesh& mesh, bool same_bytes,
                         const std::string& name) {
  Findings findings = verify_labels(op, values, name);
  if (!findings.empty() || takes_any_place(op)) return findings;
  for (const size_t axis : divided_axes(mesh)) {
    if (rule_of(op).effects.converts
            ? converts(op, values, axis, same_bytes)
            : fitting(op, op.outputs, values, axis, same_bytes).has_value())
      continue;
    std::string places;
    for (const auto* list : {&op.inputs, &op.outputs})
      for (const ValueId v : *list)
        places += fmt::format("{}{} {}", places.empty() ? "" : ", ", values[v].name,
                              place_text(values[v].sharding.place[axis]));
    findings.push_back(fmt::format("{}: no signature of its rule on axis {} has {}", name,
                                   name_of(static_cast<AxisKind>(axis)), places));
  }
  return findings;
}

}  // namespace tessera

// Verifies that the shardings of each op's operands agree with one signature of its sharding rule.
#include <fmt/format.h>

#include <algorithm>
#include <map>

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

// Returns true for ops that change state, because they work on flat buffers that ZeRO divides, and
// for messages, which send a value in whatever sharding it has.
bool takes_any_place(const Op& op) { return rule_of(op).effects.flat_state || is_message(op); }

// Returns true if a conversion leads from one placement to the other on the axes of its group and
// changes nothing on the others. Flat buffers, of one dimension, have no placements.
bool converts(const Op& op, ValueSpan values, AxisKind axis, bool same_bytes) {
  const Value &x = values[op.inputs[0]], &y = values[op.outputs[0]];
  if (x.shape.rank() == 1) return true;
  const int8_t from = x.sharding.place[axis], to = y.sharding.place[axis];
  const GroupRef& over = *over_of(op.attributes);
  if (!over.has(axis)) return from == to || fits(x, from, to, same_bytes);
  if (op.is<MarkShared>()) return from == kReplicated && to == kShared;
  auto way = conversion(from, to);
  if (!way) return false;
  *over_of(way->attributes) = over;
  return way->attributes == op.attributes;
}

// Verifies that dimensions with one label have one extent. A rule that splits nothing labels each
// operand separately.
void verify_extents(const Op& op, ValueSpan values, const ShardingRule& rule,
                    const std::string& name, Findings& findings) {
  if (rule.splits.empty()) return;
  // The largest extent of each label, and the IR value that has it.
  std::map<char, std::pair<int64_t, ValueId>> known;
  const auto look = [&](ValueId id, const std::string& labels) {
    for (int d = 0; d < std::ssize(labels); ++d) {
      const int64_t extent = values[id].shape[d];
      auto& [largest, whose] = known.try_emplace(labels[d], extent, id).first->second;
      const bool multiple = rule.multiples.find(labels[d]) != std::string::npos;
      if (extent == largest ||
          (multiple && std::max(extent, largest) % std::min(extent, largest) == 0)) {
        if (extent > largest) largest = extent, whose = id;
        continue;
      }
      findings.push_back(fmt::format("{}: dimension {} of {} is {}, but that of {} is {}", name, d,
                                     values[id].name, extent, values[whose].name, largest));
    }
  };
  for (size_t i = 0; i < op.inputs.size(); ++i) look(op.inputs[i], rule.inputs[i]);
  for (size_t i = 0; i < op.outputs.size(); ++i) look(op.outputs[i], rule.outputs[i]);
}

Findings verify_labels(const Op& op, ValueSpan values, const std::string& name) {
  const ShardingRule rule = rule_of(op.kind()).sharding(op, values);
  if (rule.inputs.size() != op.inputs.size() || rule.outputs.size() != op.outputs.size())
    return {fmt::format(
        "{}: its sharding rule labels {} inputs and {} outputs, but the op has {} and {}", name,
        rule.inputs.size(), rule.outputs.size(), op.inputs.size(), op.outputs.size())};
  Findings findings;
  const auto look = [&](ValueId id, const std::string& labels) {
    const Value& v = values[id];
    if (std::ssize(labels) != v.shape.rank())
      findings.push_back(fmt::format("{}: its sharding rule labels {} of {} as '{}'", name, v.name,
                                     to_string(v.shape), labels));
  };
  for (size_t i = 0; i < op.inputs.size(); ++i) look(op.inputs[i], rule.inputs[i]);
  for (size_t i = 0; i < op.outputs.size(); ++i) look(op.outputs[i], rule.outputs[i]);
  if (findings.empty()) verify_extents(op, values, rule, name, findings);
  return findings;
}

}  // namespace

Findings verify_sharding(const Op& op, ValueSpan values, const Mesh& mesh, bool same_bytes,
                         const std::string& name) {
  Findings findings = verify_labels(op, values, name);
  if (!findings.empty() || takes_any_place(op)) return findings;
  for (const AxisKind axis : divided_axes(mesh)) {
    if (rule_of(op).effects.converts
            ? converts(op, values, axis, same_bytes)
            : fitting(op, op.outputs, values, axis, same_bytes).has_value())
      continue;
    std::string places;
    for (const auto* list : {&op.inputs, &op.outputs})
      for (const ValueId v : *list)
        places += fmt::format("{}{} {}", places.empty() ? "" : ", ", values[v].name,
                              place_text(values[v].sharding.place[axis]));
    findings.push_back(
        fmt::format("{}: no signature of its rule on axis {} has {}", name, name_of(axis), places));
  }
  return findings;
}

}  // namespace tessera

// Chooses the signature of one op on one mesh axis, greedily and from its operands alone, by these
// rules in order:
//
//   0. attention that has all keys of its tokens is divided by head over kContext;
//   1. a weight that the model divides or shares decides;
//   2. a split that an operand already has is kept, the one with the fewest conversions;
//   3. partial sums pass through ops that are linear in them;
//   4. all other operands are converted to their home sharding (DefaultPlaces), then rule 2 is
//      tried again;
//   5. nothing is divided.
//
// Sequence parallelism needs no rule of its own: with it the home sharding of hidden states is
// split along the sequence, and the conversions that follow are its all-gathers and
// reduce-scatters.
#include "compile/graph/choose_signature.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::compile {
namespace {

// Returns the signature that keeps an operand's split with the fewest conversions, the first of
// equals.
std::optional<Signature> carried_split(const Op& op, ValueSpan values, const ShardingRule& rule,
                                       AxisKind axis, const std::vector<int8_t>& places) {
  std::optional<Signature> best;
  long fewest = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] < 0) continue;
    const char label = rule.inputs[i][places[i]];
    if (rule.splits.find(label) == std::string::npos) continue;
    Signature s = split_signature(rule, label);
    long conversions = 0;
    for (size_t k = 0; k < places.size(); ++k) {
      const Value& v = values[op.inputs[k]];
      const int8_t now = v.sharding.place[axis];
      conversions += now != kFree && !fits(v, now, s.inputs[k]) ? 1 : 0;
    }
    if (best && conversions >= fewest) continue;
    fewest = conversions;
    best = std::move(s);
  }
  return best;
}

// Returns the signature that divides nothing: shared if an operand is shared, else replicated, else
// free if a weight is free.
Signature uniform(const Op& op, ValueSpan values, const std::vector<int8_t>& places) {
  bool shared = false, replicated = false, free = false;
  for (size_t i = 0; i < places.size(); ++i) {
    shared |= places[i] == kShared;
    replicated |= places[i] == kReplicated && has_gradient(values[op.inputs[i]]);
    free |= places[i] == kFree;
  }
  int8_t all = kReplicated;
  if (shared)
    all = kShared;
  else if (free && !replicated)
    all = kFree;
  Signature s{std::vector<int8_t>(places.size(), all), std::vector<int8_t>(op.outputs.size(), all)};
  for (size_t i = 0; i < places.size(); ++i)
    if (all == kFree && places[i] != kFree) s.inputs[i] = kReplicated;
  return s;
}

// Partial sums pass only through ops that are linear and keep the shape. Before a GEMM they are
// reduced.
std::optional<Signature> carried_partial(const Op& op, const ShardingRule& rule,
                                         const std::vector<int8_t>& places) {
  for (const std::vector<int>& set : rule.linear) {
    const bool all =
        std::all_of(set.begin(), set.end(), [&](int i) { return places[i] == kPartial; });
    if (!all || rule.inputs[set[0]] != rule.outputs[0]) continue;
    Signature s{std::vector<int8_t>(places.size(), kShared),
                std::vector<int8_t>(op.outputs.size(), kPartial)};
    for (const int i : set) s.inputs[i] = kPartial;
    return s;
  }
  return std::nullopt;
}

}  // namespace

int8_t DefaultPlaces::of(const Value& v, AxisKind axis) const {
  if (is_data(axis)) return 0;
  const Shape& s = v.shape;
  const bool hidden = s.rank() == 3 && s[0] == sequences && (s[1] == tokens || s[1] == source);
  const bool rows = s.rank() >= 2 && s[0] == sequences && s[1] == tokens;
  if (axis == AxisKind::kContext) return rows ? int8_t{1} : int8_t{kReplicated};
  const bool tensor = axis == AxisKind::kTensor || axis == AxisKind::kTensorKv;
  const bool divides = tensor && sequence_parallel;
  return divides && hidden ? int8_t{1} : int8_t{kReplicated};
}

bool divides_heads(const Op& op) {
  if (const MaxScores* const a = op.if_as<MaxScores>()) return !a->separate_kv;
  const Attention* const a = op.if_as<Attention>();
  return a != nullptr && !a->separate_kv;
}

Signature choose_signature(const Op& op, ValueSpan values, const DefaultPlaces& home,
                           AxisKind axis) {
  const ShardingRule rule = rule_of(op.kind()).sharding(op, values);
  constexpr char kHeadLabel = 'k';
  if (axis == AxisKind::kContext && divides_heads(op)) return split_signature(rule, kHeadLabel);
  std::vector<int8_t> places;
  for (const ValueId v : op.inputs) {
    const Sharding& s = values[v].sharding;
    const bool by_heads = axis == AxisKind::kContext && s.cut == ContextCut::kHeads;
    places.push_back(by_heads ? home.of(values[v], axis) : s.place[axis]);
  }
  for (size_t i = 0; i < places.size(); ++i) {
    if (values[op.inputs[i]].role != Role::kWeight) continue;
    if (places[i] == kShared)
      return {std::vector<int8_t>(places.size(), kShared),
              std::vector<int8_t>(op.outputs.size(), kShared)};
    if (places[i] < 0) continue;
    const char label = rule.inputs[i][places[i]];
    CHECK(rule.splits.find(label) != std::string::npos, "{} cannot be divided along {} of {}",
          op.origin, places[i], values[op.inputs[i]].name);
    return split_signature(rule, label);
  }
  const auto send_home = [&](auto condition) {
    for (size_t i = 0; i < places.size(); ++i) {
      if (!condition(places[i])) continue;
      const int8_t h = home.of(values[op.inputs[i]], axis);
      places[i] = h == places[i] ? int8_t{kReplicated} : h;
    }
  };
  if (auto s = carried_split(op, values, rule, axis, places)) return *s;
  send_home([](int8_t p) { return p >= 0; });
  if (auto s = carried_partial(op, rule, places)) return *s;
  send_home([](int8_t p) { return p == kPartial || p == kPartialMax; });
  if (auto s = carried_split(op, values, rule, axis, places)) return *s;
  return uniform(op, values, places);
}

}  // namespace tessera::compile

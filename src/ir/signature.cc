// The sharding algebra. A placement of a value on one mesh axis is split(d), replicated, shared or
// partial. Replicated and shared values have the same bytes on all ranks; they differ in their
// gradients, which is why there are two:
//
//   value        gradient
//   replicated   replicated   every rank computes the same gradient
//   shared       partial      each rank has a term; the gradient is their sum
//   partial      shared
//   split(d)     split(d)
//
// An op's rule labels dimensions like an einsum. Splitting a label splits every operand that has
// it, shares the inputs that do not, and makes the outputs that do not partial: they are sums over
// the label.
#include "ir/signature.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {

int8_t dual(int8_t place) {
  if (place == kShared) return kPartial;
  if (place == kPartial) return kShared;
  return place;
}

Sharding dual(const Sharding& s) {
  Sharding d;
  for (const AxisKind a : Enumerators<AxisKind>()) d.place[a] = dual(s.place[a]);
  d.cut = s.cut;
  return d;
}

bool has_gradient(const Value& v) {
  const bool number = v.dtype == DType::kF32 || v.dtype == DType::kF64 || v.dtype == DType::kBF16 ||
                      v.dtype == DType::kF16;
  return number && !is_batch(v.role) && v.role != Role::kStep && v.role != Role::kReport &&
         v.role != Role::kMaxScores;
}

Signature split_signature(const ShardingRule& rule, char label) {
  Signature s;
  const auto place = [&](const std::string& labels, int8_t otherwise) {
    const size_t d = labels.find(label);
    return d == std::string::npos ? otherwise : static_cast<int8_t>(d);
  };
  // Every rank needs inputs without the label in full, so they are shared.
  for (const std::string& l : rule.inputs) s.inputs.push_back(place(l, kShared));
  const int8_t summed = rule.maximum ? kPartialMax : kPartial;
  for (const std::string& l : rule.outputs) s.outputs.push_back(place(l, summed));
  return s;
}

std::vector<Signature> signatures(const ShardingRule& rule) {
  std::vector<Signature> all;
  for (const char label : rule.splits) all.push_back(split_signature(rule, label));
  const auto uniform = [&](int8_t in, int8_t out) {
    return Signature{std::vector<int8_t>(rule.inputs.size(), in),
                     std::vector<int8_t>(rule.outputs.size(), out)};
  };
  // For a set of inputs in which the op is linear: if they are partial and the others shared, the
  // outputs are partial.
  for (const std::vector<int>& set : rule.linear) {
    all.push_back(uniform(kShared, kPartial));
    for (const int i : set) all.back().inputs.at(i) = kPartial;
  }
  // A loss on shared values would count its gradient once per rank.
  if (!rule.loss) all.push_back(uniform(kShared, kShared));
  all.push_back(uniform(kReplicated, kReplicated));
  return all;
}

// Shared and replicated values have equal bytes. They differ only in their gradients, so values
// without a gradient fit either.
bool fits(const Value& v, int8_t place, int8_t wanted, bool same_bytes) {
  if (place == wanted || (v.role == Role::kReport && v.dtype == DType::kF64)) return true;
  const auto same = [](int8_t p) { return p == kShared || p == kReplicated; };
  return same(place) && same(wanted) && (same_bytes || !has_gradient(v));
}

std::optional<Signature> fitting(const Op& op, const std::vector<ValueId>& outputs,
                                 ValueSpan values, AxisKind axis, bool same_bytes) {
  // No gradient passes through the squares of an adapted weight.
  same_bytes = same_bytes || op.is<AdaptedSquares>();
  const auto all_fit = [&](const std::vector<ValueId>& operands,
                           const std::vector<int8_t>& wanted) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] == kNone) continue;
      const Value& v = values[operands[i]];
      if (!fits(v, v.sharding.place[axis], wanted.at(i), same_bytes)) return false;
    }
    return true;
  };
  for (Signature& s : signatures(rule_of(op.kind()).sharding(op, values)))
    if (all_fit(op.inputs, s.inputs) && all_fit(outputs, s.outputs)) return std::move(s);
  return std::nullopt;
}

std::vector<AxisKind> divided_axes(const Mesh& mesh) {
  std::vector<AxisKind> axes;
  for (const AxisKind a : Enumerators<AxisKind>())
    if (mesh[a] > 1 && a != AxisKind::kPipeline) axes.push_back(a);
  return axes;
}

// The collective (or local copy) that converts from one placement to the other. The gradient of a
// conversion is its dual: all-gather and reduce-scatter, slice and pad, share
// and all-reduce, all-to-all and the opposite all-to-all.
std::optional<Conversion> conversion(int8_t from, int8_t to) {
  const bool whole_to = to == kReplicated || to == kShared;
  const bool whole_from = from == kReplicated || from == kShared;
  if ((from == kPartial || from == kPartialMax) && whole_to)
    return Conversion{AllReduce{.max = from == kPartialMax}, ".reduced"};
  if (from == kPartial && to >= 0) return Conversion{ReduceScatter{.dim = to}, ".scattered"};
  if (from >= 0 && whole_to) return Conversion{AllGather{.dim = from}, ".gathered"};
  if (whole_from && to >= 0) return Conversion{Slice{.dim = to}, ".sliced"};
  if (from >= 0 && to == kPartial) return Conversion{Pad{.dim = from}, ".padded"};
  if (from >= 0 && to >= 0) return Conversion{AllToAll{.from = from, .to = to}, ".exchanged"};
  if (from == kReplicated && to == kShared) return Conversion{MarkShared{}, ".shared"};
  return std::nullopt;
}

}  // namespace tessera

// The names of enumerations in the text of programs. A table that lacks a name for an enumerator
// does not compile.
#include "ir/names.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

namespace tessera {
namespace {

constexpr EnumArray<Queue, std::string_view> kQueueNames = {
    "compute",         "copy_in",       "copy_out",         "data",   "groups", "send_forward",
    "receive_forward", "send_backward", "receive_backward", "tensor", "expert"};
// In the order of Phase.
constexpr EnumArray<Phase, std::string_view> kPhaseNames = {"forward",
                                                            "forward_no_save",
                                                            "recompute",
                                                            "backward",
                                                            "weight_backward",
                                                            "",
                                                            "pack",
                                                            "clear",
                                                            "gather",
                                                            "reduce",
                                                            "finish",
                                                            "join",
                                                            "sum.report",
                                                            "squares",
                                                            "clip",
                                                            "max.scores",
                                                            "measure",
                                                            "sum.measure",
                                                            "factor",
                                                            "sum.factor",
                                                            "direction",
                                                            "sum.direction",
                                                            "orthogonalize",
                                                            "update",
                                                            "send_forward",
                                                            "receive_forward",
                                                            "send_backward",
                                                            "receive_backward",
                                                            "keep_sent",
                                                            "release_sent",
                                                            "offload",
                                                            "fetch"};
constexpr EnumArray<CommKind, std::string_view> kCommKindNames = {
    "",           "segment", "all_reduce", "reduce_scatter", "all_gather",
    "all_to_all", "rotate",  "send",       "receive"};
constexpr EnumArray<HiddenStream, std::string_view> kHiddenStreamNames = {"hidden", "source"};
constexpr EnumArray<Access, std::string_view> kAccessNames = {"read", "write", "add", "update"};
constexpr EnumArray<AxisKind, std::string_view> kAxisNames = {
    "pipeline", "replica", "shard", "expert", "context", "tensor_kv", "tensor"};
constexpr EnumArray<ContextCut, std::string_view> kContextCutNames = {"parts", "zigzag", "heads"};
constexpr std::array<std::pair<Placement, std::string_view>, 4> kPlaceNames = {
    {{kReplicated, "replicated"},
     {kShared, "shared"},
     {kPartial, "partial"},
     {kPartialMax, "partial_max"}}};

}  // namespace

std::string_view name_of(Queue q) { return kQueueNames.at(q); }
std::string_view name_of(Phase p) { return kPhaseNames.at(p); }
std::string_view name_of(HiddenStream s) { return kHiddenStreamNames.at(s); }
std::string_view name_of(CommKind k) { return kCommKindNames.at(k); }
std::string_view name_of(Access a) { return kAccessNames.at(a); }
std::string_view name_of(AxisKind a) { return kAxisNames.at(a); }
std::string_view name_of(ContextCut c) { return kContextCutNames.at(c); }

std::optional<std::string_view> name_of_place(int8_t place) {
  for (const auto& [named, name] : kPlaceNames)
    if (named == place) return name;
  return std::nullopt;
}

std::optional<Queue> queue_named(std::string_view s) { return enumerator_named(kQueueNames, s); }
std::optional<HiddenStream> stream_named(std::string_view s) {
  return enumerator_named(kHiddenStreamNames, s);
}
std::optional<CommKind> comm_kind_named(std::string_view s) {
  return enumerator_named(kCommKindNames, s);
}
std::optional<Access> access_named(std::string_view s) { return enumerator_named(kAccessNames, s); }
std::optional<AxisKind> axis_named(std::string_view s) { return enumerator_named(kAxisNames, s); }
std::optional<ContextCut> context_cut_named(std::string_view s) {
  return enumerator_named(kContextCutNames, s);
}

std::optional<int8_t> place_named(std::string_view s) {
  for (const auto& [place, name] : kPlaceNames)
    if (name == s) return place;
  return std::nullopt;
}

// "batch.mtp_labels2" is the value of the second depth.
bool is_value_name(Role r, std::string_view name) {
  const bool several = r == Role::kMtpTokens || r == Role::kMtpLabels;
  if (!several) return name == value_name(r);
  if (!name.starts_with(value_name(r))) return false;
  name.remove_prefix(value_name(r).size());
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<Role> role_named(std::string_view s, std::string_view name) {
  std::optional<Role> found;
  for (const Role r : Enumerators<Role>()) {
    if (name_of(r) != s) continue;
    // If several roles share this name, the first is the one without a value name of its own.
    if (!found || is_value_name(r, name)) found = r;
  }
  return found;
}

// ---- Derives relations from names, for programs read from text: "layer.up.weight.gradient" is the
// gradient of "layer.up.weight", and "hidden'" is read as "hidden".

namespace {

bool has_suffix(const std::string& name, std::string_view suffix) {
  return name.size() > suffix.size() && name.ends_with(suffix);
}

bool shares_bytes(const Value& a, const Value& b) {
  return a.buffer == b.buffer && a.offset == b.offset;
}

}  // namespace

// If several values share a name, the n-th of them belongs to the n-th value named after it.
// Gradients and factored moments belong to weights, copies to computed values. A value that is
// copied to the host has a buffer; a recomputed value has none if another value of its name has
// one.
void set_origins(ValueVector& values) {
  using Named = std::map<std::string, std::vector<ValueId>, std::less<>>;
  Named weights, computed, kept, unkept;
  for (const ValueId v : values.ids()) {
    const Value& x = values[v];
    if (x.role == Role::kWeight) {
      weights[x.name].push_back(v);
    } else {
      computed[x.name].push_back(v);
      std::vector<ValueId>& list = (x.buffer != kNone ? kept : unkept)[x.name];
      if (x.buffer != kNone && !list.empty() && shares_bytes(values[list.back()], x))
        list.back() = v;  // an op works in place: the buffer keeps its output
      else
        list.push_back(v);
    }
  }
  std::map<std::string, size_t, std::less<>> seen;
  const auto belongs = [&](Value& v, std::string_view suffix, const Named& named) {
    if (!has_suffix(v.name, suffix)) return false;
    const auto whose = named.find(v.name.substr(0, v.name.size() - suffix.size()));
    if (whose == named.end()) return false;
    const size_t n = std::min(seen[v.name]++, whose->second.size() - 1);
    v.of = whose->second[n];
    return true;
  };
  for (Value& v : values) {
    const size_t bar = v.name.find('|');
    if (v.role == Role::kGradient) belongs(v, kGradientSuffix, weights);
    if (v.role == Role::kFactoredMoment && bar != v.name.npos)
      belongs(v, v.name.substr(bar), weights);
    const auto copies = [&](CopyKind c, const Named& first, const Named& second) {
      if (belongs(v, suffix_of(c), first) || belongs(v, suffix_of(c), second)) v.copy = c;
    };
    copies(CopyKind::kNoSave, computed, {});
    copies(CopyKind::kRecomputed, unkept, computed);
    copies(CopyKind::kHost, kept, computed);
  }
}

void set_relations(Program& p) {
  const auto related = [&](const BufferKind& k, std::string_view suffix, const char* other) {
    if (!has_suffix(k.name, suffix)) return BufferKindId();
    const std::string wanted = k.name.substr(0, k.name.size() - suffix.size()) + other;
    for (const BufferKindId id : p.kinds.ids())
      if (p.kinds[id].name == wanted) return id;
    return BufferKindId();
  };
  for (BufferKind& k : p.kinds) {
    k.input = related(k, kOutputSuffix, "");
    k.factors_of = related(k, kFactorsSuffix, kWeightsSuffix);
  }
}

void set_relations(Op& op) {
  if (Sum* const sum = op.if_as<Sum>()) sum->of_gradients = op.origin == kGradientSum;
}

}  // namespace tessera

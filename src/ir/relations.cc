// Derives relations from names, for programs read from text: "layer.up.weight.gradient" is the
// gradient of "layer.up.weight", and "hidden'" is read as "hidden".
#include "ir/relations.h"

#include <algorithm>
#include <map>
#include <vector>

#include "ir/names.h"

namespace tessera {
namespace {

bool has_suffix(const std::string& name, std::string_view suffix) {
  return name.size() > suffix.size() && name.ends_with(suffix);
}

bool shares_bytes(const Value& a, const Value& b) {
  return a.frame == b.frame && a.offset == b.offset;
}

}  // namespace

// If several values share a name, the n-th of them belongs to the n-th value named after it.
// Gradients and factors are of weights, copies of what is computed. What the host keeps has a
// frame, and what is recomputed has none where another value of its name has one.
void set_origins(ValueVector& values) {
  using Named = std::map<std::string, std::vector<ValueId>, std::less<>>;
  Named weights, computed, kept, unkept;
  for (const ValueId v : values.ids()) {
    const Value& x = values[v];
    if (x.role == Role::kWeight) {
      weights[x.name].push_back(v);
    } else {
      computed[x.name].push_back(v);
      std::vector<ValueId>& list = (x.frame != kNone ? kept : unkept)[x.name];
      if (x.frame != kNone && !list.empty() && shares_bytes(values[list.back()], x))
        list.back() = v;  // an op works in place: the frame keeps its output
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
    if (v.role == Role::kFactor && bar != v.name.npos) belongs(v, v.name.substr(bar), weights);
    const auto copies = [&](CopyKind c, const Named& first, const Named& second) {
      if (belongs(v, suffix_of(c), first) || belongs(v, suffix_of(c), second)) v.copy = c;
    };
    copies(CopyKind::kNoSave, computed, {});
    copies(CopyKind::kRecomputed, unkept, computed);
    copies(CopyKind::kHost, kept, computed);
  }
}

void set_relations(Program& p) {
  const auto related = [&](const FrameKind& k, std::string_view suffix, const char* other) {
    if (!has_suffix(k.name, suffix)) return FrameKindId();
    const std::string wanted = k.name.substr(0, k.name.size() - suffix.size()) + other;
    for (const FrameKindId id : p.kinds.ids())
      if (p.kinds[id].name == wanted) return id;
    return FrameKindId();
  };
  for (FrameKind& k : p.kinds) {
    k.input = related(k, kOutputSuffix, "");
    k.factors_of = related(k, kFactorsSuffix, kWeightsSuffix);
  }
}

void set_relations(Op& op) {
  if (Sum* const sum = op.if_as<Sum>()) sum->of_gradients = op.origin == kGradientSum;
}

}  // namespace tessera

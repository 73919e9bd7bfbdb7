// "layer.up.weight.gradient" is the gradient of "layer.up.weight", "hidden'" is read as "hidden".
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

}  // namespace

// Where several values have one name, the n-th of them goes with the n-th of those named after it.
void set_origins(ValueVector& values) {
  std::map<std::string, std::vector<ValueId>, std::less<>> named;
  for (const ValueId v : values.ids()) named[values[v].name].push_back(v);
  std::map<std::string, size_t, std::less<>> seen;
  const auto belongs = [&](Value& v, std::string_view suffix) {
    if (!has_suffix(v.name, suffix)) return false;
    const auto whose = named.find(v.name.substr(0, v.name.size() - suffix.size()));
    if (whose == named.end()) return false;
    const size_t n = std::min(seen[v.name]++, whose->second.size() - 1);
    v.of = whose->second[n];
    return true;
  };
  for (Value& v : values) {
    const size_t bar = v.name.find('|');
    if (v.role == Role::kGradient) belongs(v, kGradientSuffix);
    if (v.role == Role::kFactor && bar != v.name.npos) belongs(v, v.name.substr(bar));
    for (const CopyKind c : {CopyKind::kNoSave, CopyKind::kRecomputed, CopyKind::kHost})
      if (belongs(v, suffix_of(c))) v.copy = c;
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

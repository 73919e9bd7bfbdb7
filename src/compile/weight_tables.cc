#include "compile/weight_tables.h"

namespace tessera {
namespace {

constexpr auto kShardAxis = static_cast<size_t>(AxisKind::kShard);

std::string without_suffix(const std::string& name) { return name.substr(0, name.rfind('.')); }

}  // namespace

FrameKindId find_kind(const Program& p, const std::string& name) {
  for (const FrameKindId k : p.kinds.ids())
    if (p.kinds[k].name == name) return k;
  return kNone;
}

std::string group_of(const Program& p, FrameKindId weights) {
  return without_suffix(p.kind(weights).name);
}

bool stands_in_stage(const Value& w, const Coordinates& at) {
  for (size_t a = 0; a < kMaxAxes; ++a) {
    if (a == kShardAxis || a == static_cast<size_t>(AxisKind::kPipeline)) continue;
    if (w.sharding.place[a] < 0 && at.at[a] != 0) return false;
  }
  return true;
}

bool is_first_stage(const Program& p, const FrameKind& kind) {
  return kind.stages.empty() || kind.stages[0] == p.stage;
}

bool stands_for(const Program& p, const FrameKind& weights, const Value& w, const Coordinates& at) {
  return is_first_stage(p, weights) && stands_in_stage(w, at);
}

}  // namespace tessera

// Adds up the bytes and times of a stage by the optimizer that they belong to.
#include "plan/optimizer_parts.h"

#include <map>

#include "ir/rule.h"

namespace tessera {
namespace {

bool is_optimizer_state(Role r) {
  return r == Role::kMaster || r == Role::kMoment1 || r == Role::kMoment2 || r == Role::kFactor;
}

// The weights that a kind of frames belongs to; kNone for other kinds.
FrameKindId weights_of(const FrameKind& kind) {
  return kind.factors_of != kNone ? kind.factors_of : kind.like;
}

}  // namespace

std::vector<OptimizerPart> optimizer_parts(const Program& p, SegmentTimes& times) {
  std::map<int64_t, OptimizerPart> parts;
  const auto part = [&](FrameKindId weights) -> OptimizerPart& {
    const int64_t group = p[p.kind(weights).values.at(0)].policy;
    parts[group].group = group;
    return parts[group];
  };
  for (const Frame& f : p.frames) {
    const FrameKind& kind = p.kind(f.kind);
    if (kind.values.empty() || !is_optimizer_state(p[kind.values[0]].role)) continue;
    if (const FrameKindId weights = weights_of(kind)) part(weights).bytes += kind.bytes;
  }
  for (const Call& call : p.schedule) {
    bool counted = false;
    for (const Op& op : p.segment(call).ops) {
      const FrameKindId weights = members_of(op.attributes);
      if (!weights || rule_of(op).time != TimeGroup::kOptimizer) continue;
      OptimizerPart& own = part(weights);
      if (!counted) own.seconds += static_cast<double>(times.of(call).parts.optimizer) * 1e-9;
      counted = true;
      if (rule_of(op).effects.updates_weights) own.rule = name_of(op.kind());
    }
  }
  std::vector<OptimizerPart> out;
  for (const auto& [group, own] : parts) out.push_back(own);
  return out;
}

}  // namespace tessera

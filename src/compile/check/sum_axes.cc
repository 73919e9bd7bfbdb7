// The axes over which each gradient sum must be reduced, derived from the shardings of weights
// alone: a gradient is partial exactly on the axes on which its weight is shared. check_sums
// compares this with what the program does.
#include "compile/check/sum_axes.h"

#include <fmt/format.h>

#include "ir/rule.h"

namespace tessera {
namespace {

// A gradient is partial on the axes, and over the stages, on which its weight is shared.
Axes partial_axes(const Program& p, const FrameKind& sums) {
  Axes axes;
  if (sums.like == kNone) return axes;
  const FrameKind& weights = p.kind(sums.like);
  for (const ValueId w : weights.values)
    for (size_t a = 0; a < kMaxAxes; ++a)
      if (p[w].sharding.place[a] == kShared && p.mesh.size[a] > 1)
        axes.insert(GroupRef::along({static_cast<AxisKind>(a)}));
  if (weights.stages.size() > 1) axes.insert(GroupRef::of_stages(weights.stages));
  return axes;
}

// Adafactor's measures of a rank's shard are complete once the ranks of the stage have added
// theirs.
void mark_measures(const Program& p, SumAxes& sums) {
  Axes stage;
  for (size_t a = 0; a < kMaxAxes; ++a)
    if (static_cast<AxisKind>(a) != AxisKind::kPipeline && p.mesh.size[a] > 1)
      stage.insert(GroupRef::along({static_cast<AxisKind>(a)}));
  for (const Segment& s : p.segments)
    for (const Op& op : s.ops)
      if (rule_of(op).effects.measures_part) {
        const FrameKindId kind = p[op.outputs.back()].frame;
        sums.measures.insert(kind);
        sums.needed[kind] = stage;
      }
}

}  // namespace

Axes axes_of(const GroupRef& group) {
  if (group.kind != GroupRef::Kind::kAxes) return {group};
  Axes axes;
  for (int a = 0; a < kMaxAxes; ++a)
    if (const auto axis = static_cast<AxisKind>(a); group.has(axis))
      axes.insert(GroupRef::along({axis}));
  return axes;
}

std::string axes_text(const Axes& axes) {
  std::string text;
  for (const GroupRef& a : axes) text += fmt::format("{}{}", text.empty() ? "" : "+", to_string(a));
  return text;
}

SumAxes sum_axes(const Program& p) {
  SumAxes sums;
  for (const FrameKind& k : p.kinds) {
    const bool is_sum = !k.values.empty() && p[k.values[0]].role == Role::kGradient;
    sums.needed.push_back(is_sum ? partial_axes(p, k) : Axes());
  }
  mark_measures(p, sums);
  return sums;
}

}  // namespace tessera

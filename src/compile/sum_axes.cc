#include "compile/sum_axes.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/names.h"

namespace tessera {
namespace {

// A gradient is partial where its weight is shared: over axes, and over the stages that hold it.
Axes partial_axes(const Program& p, const FrameKind& sums) {
  Axes axes;
  if (sums.like == kNone) return axes;
  const FrameKind& weights = p.kind(sums.like);
  for (const ValueId w : weights.values)
    for (size_t a = 0; a < kMaxAxes; ++a)
      if (p[w].sharding.place[a] == kShared && p.mesh.size[a] > 1)
        axes.insert(std::string(name_of(static_cast<AxisKind>(a))));
  if (weights.stages.size() > 1)
    axes.insert(fmt::format("stages:{}", fmt::join(weights.stages, ",")));
  return axes;
}

// What Adafactor measures of a rank's own part of weights means something once the ranks of the
// stage have added theirs.
void mark_measures(const Program& p, SumAxes& sums) {
  Axes stage;
  for (size_t a = 0; a < kMaxAxes; ++a)
    if (static_cast<AxisKind>(a) != AxisKind::kPipeline && p.mesh.size[a] > 1)
      stage.insert(std::string(name_of(static_cast<AxisKind>(a))));
  for (const Segment& s : p.segments)
    for (const Op& op : s.ops)
      if (op.kind == OpKind::kAdafactorSums || op.kind == OpKind::kAdafactorSquares) {
        const FrameKindId kind = p[op.outputs.back()].frame;
        sums.measures.insert(kind);
        sums.needed[kind] = stage;
      }
}

}  // namespace

Axes axes_named(const std::string& over) {
  Axes axes;
  for (size_t from = 0; from < over.size();) {
    const size_t plus = std::min(over.find('+', from), over.size());
    axes.insert(over.substr(from, plus - from));
    from = plus + 1;
  }
  return axes;
}

std::string axes_text(const Axes& axes) { return fmt::format("{}", fmt::join(axes, "+")); }

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

#include "compile/zero_plan.h"

namespace tessera {

ZeroPlan zero_plan(const Layout& layout) {
  ZeroPlan plan;
  plan.shards = mesh_of(layout)[AxisKind::kShard];
  if (plan.shards == 1) return plan;
  plan.reduce = GradientReduce::kAllReduce;
  if (layout.zero == 0) return plan;
  plan.reduce = GradientReduce::kReduceScatter;
  plan.gather = layout.zero >= 3 ? WeightGather::kPerUse : WeightGather::kPerStep;
  plan.reduces_each = layout.zero >= 2 || layout.zero_reduce == ZeroReduce::kEach;
  return plan;
}

}  // namespace tessera

#include "compile/context.h"

namespace tessera::compile {

// Implements the table in the header, row by row. With one shard there is no communication. Stage 0
// reduces whole gradients. From stage 1 on, a rank reduces and updates its own shard, and weights
// are gathered: once per step, or in stage 3 before each use.
ZeroPlan zero_plan(const Layout& layout) {
  ZeroPlan plan;
  plan.shards = state_shards(mesh_of(layout));
  if (plan.shards == 1) return plan;
  plan.reduce = GradientReduce::kAllReduce;
  if (layout.zero == 0) return plan;
  plan.reduce = GradientReduce::kReduceScatter;
  plan.gather = layout.zero >= 3 ? WeightGather::kPerUse : WeightGather::kPerStep;
  plan.reduces_each = layout.zero >= 2 || layout.zero_reduce == ZeroReduce::kEach;
  return plan;
}

// Dropout is used for training only: programs that validate or generate are compiled without it.
Context context_of(const CompileRequest& asked, const Target& target) {
  Context c = {asked, {}, zero_plan(asked.layout), target};
  CompileRequest& r = c.request;
  if (!c.trains()) r.model.dropout = r.model.attention_dropout = r.model.embedding_dropout = 0;
  c.recompute = parse_recompute(r.layout.recompute, r.model.all_layers());
  return c;
}

}  // namespace tessera::compile

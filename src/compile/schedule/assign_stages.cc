#include "compile/schedule/assign_stages.h"

#include "compile/schedule/block_shares.h"
#include "compile/schedule/pipeline.h"

namespace tessera {

StageShare assign_stages(const Graph& g, const CompileRequest& r) {
  StageShare share;
  PipelineShape& p = share.pipeline;
  p.schedule = r.layout.pipeline_schedule;
  p.stages = r.layout.pipeline;
  p.interleave = r.layout.interleave;
  p.microbatches = r.microbatches;
  p.backward = r.purpose == Purpose::kTrain;
  const BlockShares shares = shares_of(g.blocks, g.values);
  share.layers = r.layout.stages.empty() ? spread_layers(shares, p.chunks()) : r.layout.stages;
  p.cost = chunk_costs(shares, share.layers);
  share.actions = pipeline_actions(p);
  return share;
}

StagesOfBlocks holders_of(const Graph& g, StageShare share) {
  StagesOfBlocks holders(g.blocks.size());
  const IdVector<BlockId, BlockRange> ranges = block_ranges(g.blocks);
  for (const BlockId b : g.blocks.ids())
    for (share.stage = 0; share.stage < share.pipeline.stages; ++share.stage)
      if (share.holds(g.blocks[b], ranges[b])) holders[b].push_back(share.stage);
  return holders;
}

}  // namespace tessera

// Divides a model into stages: the layers of each chunk, the order of actions, and the stages that
// hold each block.
#include "compile/schedule/assign_stages.h"

#include <algorithm>

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

StagesOfBlocks holders_of(const Graph& g, const StageShare& share) {
  StagesOfBlocks holders(g.blocks.size());
  const std::vector<std::vector<Visit>> chunks = share.chunks(g.blocks);
  for (size_t c = 0; c < chunks.size(); ++c) {
    const int64_t stage = static_cast<int64_t>(c) % share.pipeline.stages;
    for (const Visit& v : chunks[c])
      if (!std::count(holders[v.block].begin(), holders[v.block].end(), stage))
        holders[v.block].push_back(stage);
  }
  for (std::vector<int64_t>& stages : holders) std::sort(stages.begin(), stages.end());
  return holders;
}

}  // namespace tessera

// Divides the layers of the model, in their order, among the chunks of a pipeline. The embedding is
// on the first stage, the head on the last.
#include "compile/schedule/stage_layers.h"

#include <algorithm>
#include <array>

#include "compile/schedule/layer_costs.h"
#include "compile/schedule/pipeline.h"

namespace tessera::compile {

// Returns the blocks in forward order. The stacks of each stream are merged by the numbers of their
// layers.
std::vector<ChunkBlock> model_order(const IdVector<BlockId, Block>& blocks) {
  std::vector<ChunkBlock> order;
  EnumArray<HiddenStream, int64_t> ends;  // number of layers of each stream so far
  int64_t layers = 0;
  for (BlockId b(0); blocks.contains(b);) {
    const Block& block = blocks[b];
    if (!block.is_stack()) {
      const Positions at{block.input == kNone ? int64_t{kNone} : ends[block.from],
                         block.output == kNone ? int64_t{kNone} : ends[block.to]};
      order.push_back({b, kNone, layers, at});
      b = BlockId(b.number() + 1);
      continue;
    }
    const auto first = std::ssize(order);
    for (; blocks.contains(b) && blocks[b].is_stack() && blocks[b].from == block.from;
         b = BlockId(b.number() + 1))
      for (const int64_t l : blocks[b].at) order.push_back({b, l, 0, {l, l + 1}});
    std::sort(order.begin() + first, order.end(),
              [](const ChunkBlock& x, const ChunkBlock& y) { return x.layer < y.layer; });
    for (auto v = order.begin() + first; v != order.end(); ++v) v->before = layers++;
    ends[block.from] = order.back().at.out;
  }
  return order;
}

std::vector<std::vector<ChunkBlock>> StageLayers::chunks(
    const IdVector<BlockId, Block>& blocks) const {
  std::vector<std::vector<ChunkBlock>> of(layers.size());
  size_t chunk = 0;
  int64_t end = layers.front();
  for (const ChunkBlock& v : model_order(blocks)) {
    for (; v.before >= end && chunk + 1 < layers.size(); end += layers[chunk]) ++chunk;
    const Block& block = blocks[v.block];
    if (block.input == kNone)
      of.front().push_back(v);
    else
      of[block.output == kNone ? of.size() - 1 : chunk].push_back(v);
  }
  return of;
}

// Divides a model into stages: the layers of each chunk, the order of actions, and the stages that
// hold each block.
StageLayers assign_stages(const Graph& g, const CompileRequest& r) {
  StageLayers share;
  PipelineShape& p = share.pipeline;
  p.schedule = r.layout.pipeline_schedule;
  p.stages = r.layout.pipeline;
  p.interleave = r.layout.interleave;
  p.microbatches = r.microbatches;
  p.backward = r.kind == ProgramKind::kTrain;
  const LayerCosts shares = shares_of(g.blocks, g.values);
  share.layers = r.layout.stages.empty() ? spread_layers(shares, p.chunks()) : r.layout.stages;
  p.cost = chunk_costs(shares, share.layers);
  share.actions = pipeline_actions(p);
  return share;
}

StagesOfBlocks holders_of(const Graph& g, const StageLayers& share) {
  StagesOfBlocks holders(g.blocks.size());
  const std::vector<std::vector<ChunkBlock>> chunks = share.chunks(g.blocks);
  for (int64_t c = 0; c < std::ssize(chunks); ++c) {
    const int64_t stage = c % share.pipeline.stages;
    for (const ChunkBlock& v : chunks[c])
      if (!std::count(holders[v.block].begin(), holders[v.block].end(), stage))
        holders[v.block].push_back(stage);
  }
  for (std::vector<int64_t>& stages : holders) std::sort(stages.begin(), stages.end());
  return holders;
}

}  // namespace tessera::compile

#include "compile/compile.h"

#include "base/error.h"
#include "compile/block_passes.h"
#include "compile/block_shares.h"
#include "compile/blocks.h"
#include "compile/drop_unused.h"
#include "compile/expand.h"
#include "compile/layout_check.h"
#include "compile/offload.h"
#include "compile/overlap.h"
#include "compile/pipeline.h"
#include "compile/place.h"
#include "compile/schedule.h"
#include "compile/zero.h"
#include "ir/rule.h"
#include "model/forward.h"

namespace tessera {
namespace {

constexpr const char* kPurposes[] = {"train", "validate", "logits", "decode"};

// Dropout is for training; every other program is the model without it.
CompileRequest without_dropout(CompileRequest r) {
  if (r.purpose != Purpose::kTrain)
    r.model.dropout = r.model.attention_dropout = r.model.embedding_dropout = 0;
  return r;
}

// Layers to chunks: as the layout says, or so that the costliest chunk is as cheap as can be.
StageShare share_of(const Graph& g, const CompileRequest& r) {
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

bool reduces_each(const Layout& l) {
  return l.zero >= 2 || (l.zero == 1 && l.zero_reduce == ZeroReduce::kEach);
}

}  // namespace

Blocks compile_blocks(const CompileRequest& asked, const Target& target) {
  Blocks m;
  m.request = without_dropout(asked);
  check_layout(m.request.model, m.request.layout,
               {0, m.request.sequences, m.request.tokens, m.request.source});
  check_head_copies(m.request);
  CHECK(m.request.precision != Precision::kAuto, "precision auto is resolved before");
  const bool generates =
      m.request.purpose == Purpose::kLogits || m.request.purpose == Purpose::kDecode;
  CHECK(!m.request.encoded ||
            (m.request.purpose == Purpose::kDecode && m.request.model.encoder_layers > 0),
        "only what decodes behind an encoder can have it behind itself");
  CHECK(!generates || mesh_of(m.request.layout).ranks() == 1, "{} is a program of one rank",
        kPurposes[static_cast<int>(m.request.purpose)]);
  m.recompute = parse_recompute(m.request.layout.recompute, m.request.model.all_layers());
  Graph graph = block_passes(m.request, m.recompute);
  m.share = share_of(graph, m.request);
  const auto holders = holders_of(graph, m.share);
  m.expanded = expand(std::move(graph), m.request, m.recompute, target, holders);
  return m;
}

Program program_of(const Blocks& blocks, int64_t stage, const Target& target) {
  const CompileRequest& request = blocks.request;
  StageShare share = blocks.share;
  share.stage = stage;
  Expanded expanded = blocks.expanded;
  Program p = schedule(expanded, request, blocks.recompute, target, share);
  p.ordered_transfers = target.ordered_transfers;
  zero(p, expanded, reduces_each(request.layout) && p.mesh[AxisKind::kShard] > 1);
  if (request.purpose == Purpose::kTrain)
    offload(p, parse_offload(request.layout.offload), request.layout.overlap);
  overlap(p, request.layout.overlap);
  drop_uncalled(p);
  p.name = kPurposes[static_cast<int>(request.purpose)];
  place(p, {.alignment = target.alignment});
  return p;
}

Program compile(const CompileRequest& request, const Target& target) {
  return program_of(compile_blocks(request, target), request.stage, target);
}

std::vector<Program> compile_stages(const CompileRequest& request, const Target& target) {
  const Blocks blocks = compile_blocks(request, target);
  std::vector<Program> programs;
  for (int64_t stage = 0; stage < request.layout.pipeline; ++stage)
    programs.push_back(program_of(blocks, stage, target));
  return programs;
}

void check_weight_names(const CompileRequest& request) { tuned_model(request); }

PipelineShape pipeline_of(const CompileRequest& asked) {
  const CompileRequest request = without_dropout(asked);
  const Recompute recompute = parse_recompute(request.layout.recompute, request.model.all_layers());
  return share_of(block_passes(request, recompute), request).pipeline;
}

double model_flops(const CompileRequest& request) {
  const Graph g = forward(request.model, {request.sequences, request.tokens, request.source});
  double flops = 0;
  for (const Block& b : g.blocks)
    for (const Op& op : b.forward)
      flops += cost_of(op, g.values).flops.model * static_cast<double>(b.layers);
  return 3 * flops;  // the backward computes two products for each of the forward's
}

}  // namespace tessera

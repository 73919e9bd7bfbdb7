#include "compile/compile.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "compile/blocks.h"
#include "compile/layout_check.h"
#include "compile/offload.h"
#include "compile/overlap.h"
#include "compile/passes.h"
#include "compile/place.h"
#include "compile/schedule.h"
#include "compile/zero.h"
#include "ir/rule.h"
#include "model/forward.h"

namespace tessera {
namespace {

constexpr const char* kPurposes[] = {"train", "validate", "logits", "decode"};

// The model, with what fine-tuning changes in it.
Graph tuned_model(const CompileRequest& r) {
  const int64_t copies = head_copies(r.model, r.layout);
  Graph g = forward(r.model,
                    {r.sequences * r.layout.data, r.tokens, r.source, r.documents_apart, copies});
  g.mesh = mesh_of(r.layout, copies);
  add_adapters(g, r.adapters);
  freeze(g, r.frozen);
  return g;
}

Graph graph_for(const CompileRequest& r, const Recompute& recompute) {
  Graph g = tuned_model(r);
  const bool generates = r.purpose == Purpose::kLogits || r.purpose == Purpose::kDecode;
  if (generates) keep_logits(g);
  if (r.purpose == Purpose::kDecode) decode(g, r.model.context, r.encoded);
  if (r.options.cross_entropy == CrossEntropyKind::kUnfused && !generates) unfuse_cross_entropy(g);
  if (r.options.attention == AttentionKind::kMaterialised && r.purpose != Purpose::kDecode)
    materialise_attention(g, r.options.scores == ScoresType::kHalf);
  if (r.options.masks == MaskKind::kKept && r.purpose == Purpose::kTrain) keep_masks(g);
  apply_precision(g, r.precision);
  shard(g, r.layout);
  if (r.options.fuse_bias_gelu) fuse_bias_gelu(g);
  if (r.purpose == Purpose::kTrain) differentiate(g);
  if (r.purpose == Purpose::kTrain && r.precision == Precision::kFp16) scale_loss(g);
  remove_shares(g);
  if (r.purpose == Purpose::kTrain && recompute.selective)
    recompute_selective(g, r.options.selective);
  if (r.purpose == Purpose::kTrain && r.layout.pipeline > 1 &&
      r.layout.pipeline_schedule == PipelineSchedule::kZeroBubble)
    split_backward(g);
  if (r.purpose == Purpose::kTrain) {
    if (r.options.gradients == GradientType::kHalf) narrow_gradients(g, type_of(r.precision));
    if (r.options.accumulate == AccumulateKind::kApart) accumulate_apart(g, type_of(r.precision));
  }
  if (r.options.products == ProductType::kFp8 && !generates) multiply_in_fp8(g);
  if (r.options.fuse_residual_norm) fuse_residual_norm(g);
  remove_dead_ops(g);
  return g;
}

// Dropout is for training; every other program is the model without it.
CompileRequest without_dropout(CompileRequest r) {
  if (r.purpose != Purpose::kTrain) r.model.dropout = r.model.attention_dropout = 0;
  return r;
}

double forward_flops(const std::vector<Value>& values, const Block& b) {
  double flops = 0;
  for (const Op& op : b.forward) flops += cost_of(op, values).flops;
  return flops;
}

// A chunk's cost is told in so many parts of the cheapest layer, where layers differ.
constexpr double kCostUnits = 4;

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

std::vector<std::vector<int64_t>> holders_of(const Graph& g, StageShare share) {
  std::vector<std::vector<int64_t>> holders(g.blocks.size());
  const std::vector<BlockRange> ranges = block_ranges(g.blocks);
  for (size_t b = 0; b < g.blocks.size(); ++b)
    for (share.stage = 0; share.stage < share.pipeline.stages; ++share.stage)
      if (share.holds(g.blocks[b], ranges[b])) holders[b].push_back(share.stage);
  return holders;
}

bool reduces_each(const Layout& l) {
  return l.zero >= 2 || (l.zero == 1 && l.zero_reduce == ZeroReduce::kEach);
}

}  // namespace

BlockShares shares_of(const std::vector<Block>& blocks, const std::vector<Value>& values) {
  BlockShares shares;
  double before = 0;
  for (const Block& b : blocks) {
    const double flops = forward_flops(values, b);
    if (b.is_stack())
      for (int64_t l = 0; l < b.layers; ++l) shares.layers.push_back(flops + (l == 0 ? before : 0));
    before = b.is_stack() || b.input == kNone ? 0 : flops;
  }
  const double cheapest = *std::min_element(shares.layers.begin(), shares.layers.end());
  for (double& c : shares.layers) c /= cheapest;
  shares.embedding = forward_flops(values, blocks.front()) / cheapest;
  shares.head = forward_flops(values, blocks.back()) / cheapest;
  return shares;
}

std::vector<int64_t> spread_layers(const BlockShares& shares, int64_t chunks) {
  return spread_layers(shares.layers, chunks, shares.embedding, shares.head);
}

std::vector<int64_t> chunk_costs(const BlockShares& shares, const std::vector<int64_t>& layers) {
  std::vector<int64_t> costs;
  auto next = shares.layers.begin();
  const bool alike = shares.layers.front() == shares.layers.back();
  for (const int64_t n : layers) {
    const double cost = std::accumulate(next, next + n, 0.0);
    next += n;
    costs.push_back(std::max<int64_t>(alike ? n : std::llround(kCostUnits * cost), 1));
  }
  return costs;
}

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
  Graph graph = graph_for(m.request, m.recompute);
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
  return share_of(graph_for(request, recompute), request).pipeline;
}

double model_flops(const CompileRequest& request) {
  const Graph g = forward(request.model, {request.sequences, request.tokens, request.source});
  double flops = 0;
  for (const Block& b : g.blocks)
    for (const Op& op : b.forward)
      flops += cost_of(op, g.values).flops * static_cast<double>(b.layers);
  return 3 * flops;  // the backward computes two products for each of the forward's
}

}  // namespace tessera

#include "compile/compile.h"

#include "base/error.h"
#include "compile/expand.h"
#include "compile/passes.h"
#include "compile/place.h"
#include "compile/schedule.h"
#include "ir/rule.h"
#include "model/forward.h"

namespace tessera {
namespace {

constexpr const char* kPurposes[] = {"train", "validate", "logits", "decode"};

void require_one_rank(const Layout& l) {
  const int64_t ranks = l.data * l.tensor * l.pipeline * l.context * l.expert;
  if (ranks != 1)
    throw Error(
        "layout asks for {} ranks (data {} x tensor {} x pipeline {} x context {} x expert "
        "{}); this version runs one. Set all of them to 1.",
        ranks, l.data, l.tensor, l.pipeline, l.context, l.expert);
}

Graph graph_for(const CompileRequest& r, const Recompute& recompute) {
  Graph g = forward(r.model, r.sequences, r.tokens);
  const bool generates = r.purpose == Purpose::kLogits || r.purpose == Purpose::kDecode;
  if (generates) keep_logits(g);
  if (r.purpose == Purpose::kDecode) decode(g, r.model.context);
  if (r.options.cross_entropy == CrossEntropyKind::kUnfused && !generates) unfuse_cross_entropy(g);
  if (r.options.attention == AttentionKind::kMaterialised && r.purpose != Purpose::kDecode)
    materialise_attention(g);
  apply_precision(g, r.precision);
  shard(g, r.layout);
  if (r.options.fuse_bias_gelu) fuse_bias_gelu(g);
  if (r.purpose == Purpose::kTrain) differentiate(g);
  remove_shares(g);
  if (r.purpose == Purpose::kTrain && recompute.selective) recompute_selective(g);
  if (r.options.fuse_residual_norm) fuse_residual_norm(g);
  remove_dead_ops(g);
  return g;
}

// Dropout is for training; every other program is the model without it.
CompileRequest without_dropout(CompileRequest r) {
  if (r.purpose != Purpose::kTrain) r.model.dropout = r.model.attention_dropout = 0;
  return r;
}

}  // namespace

Program compile(const CompileRequest& asked, const Target& target) {
  require_one_rank(asked.layout);
  const CompileRequest request = without_dropout(asked);
  if (request.precision != Precision::kFp32 && request.precision != Precision::kBf16)
    throw Error("precision: this version trains in fp32 and bf16 only.");
  const Recompute recompute = parse_recompute(request.layout.recompute, request.model.layers);
  Graph graph = graph_for(request, recompute);
  Program p =
      schedule(expand(std::move(graph), request, recompute, target), request, recompute, target);
  p.name = kPurposes[static_cast<int>(request.purpose)];
  place(p, {.alignment = target.alignment});
  return p;
}

double model_flops(const CompileRequest& request) {
  const Graph g = forward(request.model, request.sequences, request.tokens);
  double flops = 0;
  for (const Block& b : g.blocks)
    for (const Op& op : b.forward)
      flops += cost_of(op, g.values).flops * static_cast<double>(b.layers);
  return 3 * flops;  // the backward computes two products for each of the forward's
}

}  // namespace tessera

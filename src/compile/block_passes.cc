#include "compile/block_passes.h"

#include "compile/passes.h"
#include "model/forward.h"

namespace tessera {

Graph tuned_model(const CompileRequest& r) {
  const int64_t copies = head_copies(r.model, r.layout);
  Graph g = forward(r.model,
                    {r.sequences * r.layout.data, r.tokens, r.source, r.documents_apart, copies});
  g.mesh = mesh_of(r.layout, copies);
  add_adapters(g, r.adapters);
  freeze(g, r.frozen);
  return g;
}

Graph block_passes(const CompileRequest& r, const Recompute& recompute) {
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

}  // namespace tessera

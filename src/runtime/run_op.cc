#include "base/error.h"
#include "runtime/bound_op.h"

namespace tessera {
namespace {

struct Row {
  OpKind kind;
  RunOp run;
};

constexpr Row kKernels[] = {{OpKind::kEmbedding, run_embedding},
                            {OpKind::kEmbeddingGrad, run_embedding_grad},
                            {OpKind::kNorm, run_norm},
                            {OpKind::kNormGrad, run_norm_grad},
                            {OpKind::kRmsNorm, run_norm},
                            {OpKind::kRmsNormGrad, run_norm_grad},
                            {OpKind::kMatmul, run_matmul},
                            {OpKind::kMatmulGradInput, run_matmul},
                            {OpKind::kMatmulGradWeight, run_matmul_grad_weight},
                            {OpKind::kRotary, run_rotary},
                            {OpKind::kRepeatHeads, run_repeat_heads},
                            {OpKind::kRepeatHeadsGrad, run_repeat_heads_grad},
                            {OpKind::kJoinHeads, run_join_heads},
                            {OpKind::kJoinHeadsGrad, run_join_heads_grad},
                            {OpKind::kAttention, run_attention},
                            {OpKind::kAttentionGrad, run_attention_grad},
                            {OpKind::kCachedAttention, run_cached_attention},
                            {OpKind::kAttentionScores, run_attention_scores},
                            {OpKind::kAttentionScoresGrad, run_attention_scores_grad},
                            {OpKind::kSoftmax, run_softmax},
                            {OpKind::kSoftmaxGrad, run_softmax_grad},
                            {OpKind::kAttentionMix, run_attention_mix},
                            {OpKind::kAttentionMixGrad, run_attention_mix_grad},
                            {OpKind::kGelu, run_gelu},
                            {OpKind::kGeluGrad, run_gelu_grad},
                            {OpKind::kGatedActivation, run_gated_activation},
                            {OpKind::kGatedActivationGrad, run_gated_activation_grad},
                            {OpKind::kSum, run_sum},
                            {OpKind::kScale, run_scale},
                            {OpKind::kAccumulate, run_accumulate},
                            {OpKind::kBiasGrad, run_bias_grad},
                            {OpKind::kDropout, run_dropout},
                            {OpKind::kDropoutGrad, run_dropout_grad},
                            {OpKind::kCast, run_cast},
                            {OpKind::kCopy, run_copy},
                            {OpKind::kCrossEntropy, run_cross_entropy},
                            {OpKind::kLinearCrossEntropy, run_linear_cross_entropy},
                            {OpKind::kLogitsMax, run_logits_max},
                            {OpKind::kLogitsSums, run_logits_sums},
                            {OpKind::kDividedCrossEntropy, run_divided_cross_entropy},
                            {OpKind::kClear, run_clear},
                            {OpKind::kPack, run_pack},
                            {OpKind::kSquares, run_squares},
                            {OpKind::kClip, run_clip},
                            {OpKind::kAdamw, run_update},
                            {OpKind::kLion, run_update},
                            {OpKind::kSgd, run_update},
                            {OpKind::kAdafactorSums, run_adafactor_sums},
                            {OpKind::kAdafactorSquares, run_adafactor_squares},
                            {OpKind::kAdafactor, run_adafactor},
                            {OpKind::kAllReduce, nullptr},
                            {OpKind::kReduceScatter, nullptr},
                            {OpKind::kAllGather, nullptr},
                            {OpKind::kSlice, run_slice},
                            {OpKind::kPad, run_pad},
                            {OpKind::kShare, nullptr},
                            {OpKind::kSend, nullptr},
                            {OpKind::kReceive, nullptr}};
static_assert(std::size(kKernels) == static_cast<size_t>(OpKind::kCount));

}  // namespace

RunOp run_op(OpKind kind) {
  for (const Row& row : kKernels)
    if (row.kind == kind) return row.run;
  CHECK(false, "op kind {} has no kernel", static_cast<int>(kind));
}

}  // namespace tessera

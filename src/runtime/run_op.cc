#include "runtime/bound_op.h"

namespace tessera {

RunOp run_op(OpKind kind) {
  switch (kind) {
    case OpKind::kEmbedding:
      return run_embedding;
    case OpKind::kEmbeddingGrad:
      return run_embedding_grad;
    case OpKind::kNorm:
      return run_norm;
    case OpKind::kNormGrad:
      return run_norm_grad;
    case OpKind::kMatmul:
    case OpKind::kMatmulGradInput:
      return run_matmul;
    case OpKind::kMatmulGradWeight:
      return run_matmul_grad_weight;
    case OpKind::kRotary:
      return run_rotary;
    case OpKind::kAttention:
      return run_attention;
    case OpKind::kAttentionGrad:
      return run_attention_grad;
    case OpKind::kCachedAttention:
      return run_cached_attention;
    case OpKind::kAttentionScores:
      return run_attention_scores;
    case OpKind::kAttentionScoresGrad:
      return run_attention_scores_grad;
    case OpKind::kSoftmax:
      return run_softmax;
    case OpKind::kSoftmaxGrad:
      return run_softmax_grad;
    case OpKind::kAttentionMix:
      return run_attention_mix;
    case OpKind::kAttentionMixGrad:
      return run_attention_mix_grad;
    case OpKind::kGelu:
      return run_gelu;
    case OpKind::kGeluGrad:
      return run_gelu_grad;
    case OpKind::kSum:
      return run_sum;
    case OpKind::kBiasGrad:
      return run_bias_grad;
    case OpKind::kDropout:
      return run_dropout;
    case OpKind::kCast:
      return run_cast;
    case OpKind::kCrossEntropy:
      return run_cross_entropy;
    case OpKind::kLinearCrossEntropy:
      return run_linear_cross_entropy;
    case OpKind::kClear:
      return run_clear;
    case OpKind::kPack:
      return run_pack;
    case OpKind::kSquares:
      return run_squares;
    case OpKind::kClip:
      return run_clip;
    case OpKind::kAdamw:
      return run_adamw;
    case OpKind::kCount:
      break;
  }
  CHECK(false, "op kind {} has no kernel", static_cast<int>(kind));
}

}  // namespace tessera

// The function that runs each kind of op.
#include "base/error.h"
#include "runtime/bound_op.h"

namespace tessera {
namespace {

struct Row {
  OpKind kind;
  RunOp run;
};

constexpr Row kKernels[] = {{kind_of<Embedding>(), run_embedding},
                            {kind_of<EmbeddingGrad>(), run_embedding_grad},
                            {kind_of<Norm>(), run_norm},
                            {kind_of<NormGrad>(), run_norm_grad},
                            {kind_of<RmsNorm>(), run_rms_norm},
                            {kind_of<RmsNormGrad>(), run_rms_norm_grad},
                            {kind_of<Matmul>(), run_matmul},
                            {kind_of<MatmulGradInput>(), run_matmul},
                            {kind_of<MatmulGradWeight>(), run_matmul_grad_weight},
                            {kind_of<Rotary>(), run_rotary},
                            {kind_of<RepeatHeads>(), run_repeat_heads},
                            {kind_of<RepeatHeadsGrad>(), run_repeat_heads_grad},
                            {kind_of<JoinHeads>(), run_join_heads},
                            {kind_of<JoinHeadsGrad>(), run_join_heads_grad},
                            {kind_of<Attention>(), run_attention},
                            {kind_of<AttentionGrad>(), run_attention_grad},
                            {kind_of<CachedAttention>(), run_cached_attention},
                            {kind_of<AttentionScores>(), run_attention_scores},
                            {kind_of<AttentionScoresGrad>(), run_attention_scores_grad},
                            {kind_of<Softmax>(), run_softmax},
                            {kind_of<SoftmaxGrad>(), run_softmax_grad},
                            {kind_of<AttentionMix>(), run_attention_mix},
                            {kind_of<AttentionMixGrad>(), run_attention_mix_grad},
                            {kind_of<Gelu>(), run_gelu},
                            {kind_of<GeluGrad>(), run_gelu_grad},
                            {kind_of<GatedActivation>(), run_gated_activation},
                            {kind_of<GatedActivationGrad>(), run_gated_activation_grad},
                            {kind_of<Sum>(), run_sum},
                            {kind_of<Scale>(), run_scale},
                            {kind_of<Accumulate>(), run_accumulate},
                            {kind_of<BiasGrad>(), run_bias_grad},
                            {kind_of<Dropout>(), run_dropout},
                            {kind_of<DropoutGrad>(), run_dropout_grad},
                            {kind_of<Cast>(), run_cast},
                            {kind_of<Copy>(), run_copy},
                            {kind_of<CrossEntropy>(), run_cross_entropy},
                            {kind_of<LinearCrossEntropy>(), run_linear_cross_entropy},
                            {kind_of<LogitsMax>(), run_logits_max},
                            {kind_of<LogitsSums>(), run_logits_sums},
                            {kind_of<DividedCrossEntropy>(), run_divided_cross_entropy},
                            {kind_of<Clear>(), run_clear},
                            {kind_of<Pack>(), run_pack},
                            {kind_of<Squares>(), run_squares},
                            {kind_of<Clip>(), run_clip},
                            {kind_of<Adamw>(), run_adamw},
                            {kind_of<Lion>(), run_lion},
                            {kind_of<Sgd>(), run_sgd},
                            {kind_of<AdafactorSums>(), run_adafactor_sums},
                            {kind_of<AdafactorSquares>(), run_adafactor_squares},
                            {kind_of<Adafactor>(), run_adafactor},
                            {kind_of<AllReduce>(), nullptr},
                            {kind_of<ReduceScatter>(), nullptr},
                            {kind_of<AllGather>(), nullptr},
                            {kind_of<Slice>(), run_slice},
                            {kind_of<Pad>(), run_pad},
                            {kind_of<Share>(), nullptr},
                            {kind_of<Send>(), nullptr},
                            {kind_of<Receive>(), nullptr}};
static_assert(std::size(kKernels) == static_cast<size_t>(kOpKinds));

}  // namespace

RunOp run_op(OpKind kind) {
  for (const Row& row : kKernels)
    if (row.kind == kind) return row.run;
  CHECK(false, "op kind {} has no kernel", static_cast<int>(kind));
}

}  // namespace tessera

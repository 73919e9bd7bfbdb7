// The rules of all ops, one file each beside this one.
#pragma once

#include "ir/rule.h"

namespace tessera {

extern const OpRule kEmbeddingRule, kEmbeddingGradRule, kNormRule, kNormGradRule, kRmsNormRule,
    kRmsNormGradRule, kMatmulRule, kMatmulGradInputRule, kMatmulGradWeightRule, kRotaryRule,
    kRepeatHeadsRule, kRepeatHeadsGradRule, kJoinHeadsRule, kJoinHeadsGradRule, kAttentionRule,
    kAttentionGradRule, kCachedAttentionRule, kAttentionScoresRule, kAttentionScoresGradRule,
    kSoftmaxRule, kSoftmaxGradRule, kAttentionMixRule, kAttentionMixGradRule, kGeluRule,
    kGeluGradRule, kGatedActivationRule, kGatedActivationGradRule, kSumRule, kScaleRule,
    kAccumulateRule, kBiasGradRule, kDropoutRule, kDropoutGradRule, kCastRule, kCopyRule,
    kCrossEntropyRule, kLinearCrossEntropyRule, kLogitsMaxRule, kLogitsSumsRule,
    kDividedCrossEntropyRule, kClearRule, kPackRule, kSquaresRule, kClipRule, kAdamwRule, kLionRule,
    kSgdRule, kAdafactorSumsRule, kAdafactorSquaresRule, kAdafactorRule, kAllReduceRule,
    kReduceScatterRule, kAllGatherRule, kSliceRule, kPadRule, kShareRule, kSendRule, kReceiveRule;

// The cost of an op that makes products: they do all of its operations.
Cost product_cost(const Op& op, ValueSpan values, Work work, std::vector<ProductShape> products);

// Which input the first output may overwrite.
InPlace over_first(const Op& op);
InPlace over_last(const Op& op);
// The gradient of the logits, where a loss has it as an output, overwrites the logits.
InPlace over_logits(const Op& op);

// The type of a sum of weight gradients: attribute `into`, or f32.
DType sum_type(const Attributes& a);

// Of norms (norm.cc): the inputs are terms and biases of a sum, then `vectors` of its width.
std::vector<OutputSpec> infer_norm(const Attributes& a, const Inputs& in, int64_t vectors);
ShardingRule sharding_of_norm(const Op& op, ValueSpan values);
void gradient_of_norm(Gradients& g, const Op& op, OpKind kind);  // kind: of the gradient's op
InPlace over_gradient(const Op& op);  // of norm_grad: dx over what it adds to, else over dy

// Of what works on state: nothing is split by the op, since ZeRO splits whole frames.
ShardingRule whole(const Op& op, ValueSpan values);

}  // namespace tessera

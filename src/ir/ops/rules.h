// The rules of all ops, one file each beside this one.
#pragma once

#include "ir/rule.h"

namespace tessera {

extern const OpRule kEmbeddingRule, kEmbeddingGradRule, kNormRule, kNormGradRule, kRmsNormRule,
    kRmsNormGradRule, kMatmulRule, kMatmulGradInputRule, kMatmulGradWeightRule, kRotaryRule,
    kAttentionRule, kAttentionGradRule, kCachedAttentionRule, kAttentionScoresRule,
    kAttentionScoresGradRule, kSoftmaxRule, kSoftmaxGradRule, kAttentionMixRule,
    kAttentionMixGradRule, kGeluRule, kGeluGradRule, kGatedActivationRule, kGatedActivationGradRule,
    kSumRule, kScaleRule, kAccumulateRule, kBiasGradRule, kDropoutRule, kDropoutGradRule, kCastRule,
    kCrossEntropyRule, kLinearCrossEntropyRule, kLogitsMaxRule, kLogitsSumsRule,
    kDividedCrossEntropyRule, kClearRule, kPackRule, kSquaresRule, kClipRule, kAdamwRule, kLionRule,
    kSgdRule, kAdafactorSumsRule, kAdafactorSquaresRule, kAdafactorRule, kAllReduceRule,
    kReduceScatterRule, kAllGatherRule, kSliceRule, kPadRule, kShareRule, kSendRule, kReceiveRule;

// The type of a sum of weight gradients: attribute `into`, or f32.
DType sum_type(const Attributes& a);

// Of what works on state: nothing is split by the op, since ZeRO splits whole frames.
ShardingRule whole(const Op& op, std::span<const Value> values);

}  // namespace tessera

// Every op with operands small enough to try each combination of places.
#pragma once

#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/state.h"

namespace tessera::testing {

struct In {
  DType dtype;
  Shape shape;
  Role role = Role::kActivation;
};
inline In x(Shape s) { return {DType::kF32, std::move(s)}; }
inline In weight(Shape s) { return {DType::kF32, std::move(s), Role::kWeight}; }
inline In known(Shape s) { return {DType::kF32, std::move(s), Role::kBatch}; }
inline In mask(Shape s) { return {DType::kU8, std::move(s), Role::kBatch}; }
inline In ids(Shape s) { return {DType::kI32, std::move(s), Role::kBatch}; }
inline In samples() { return {DType::kI64, {2}, Role::kBatch}; }
inline In step() { return {DType::kF64, {kStepSize}, Role::kStep}; }

struct Case {
  const char* name;
  OpKind kind;
  Attributes attributes;
  std::vector<In> inputs;
  // Labels whose parts the kernel cannot even be called with: pairs and slots of packed heads, a
  // label in a vocabulary that is said to be whole.
  const char* whole = "";
  // Sound, but no signature, which has all outputs partial or none. No pass asks for these: weights
  // and probabilities are never partial.
  std::vector<std::string> needless = {};
};

inline constexpr auto one = int64_t{1}, two = int64_t{2};
inline constexpr int64_t kRows = 6;  // of tables; ids are below
inline const Shape kHidden = {2, 4, 6}, kRowsOf = {2, 4}, kVector = {6};
inline const Shape kQkv = {2, 4, 2, 4, 8}, kOut = {2, 4, 4, 8}, kLse = {2, 4, 4},
                   kPairs = {2, 4, 4, 4};

inline std::vector<Case> forwards() {
  return {
      {"embedding", OpKind::kEmbedding, {}, {ids(kRowsOf), weight({kRows, 4})}},
      {"norm",
       OpKind::kNorm,
       {{"epsilon", 1e-5}},
       {x(kHidden), weight(kVector), weight(kVector)},
       "s",
       {" -2 -3 -3 -> -3 -1"}},
      {"rms_norm",
       OpKind::kRmsNorm,
       {{"epsilon", 1e-5}},
       {x(kHidden), weight(kVector)},
       "s",
       {" -2 -3 -> -3 -1"}},
      {"gated_activation", OpKind::kGatedActivation, {{"form", "silu"}}, {x({2, 4, 6, 2})}, "g"},
      {"matmul", OpKind::kMatmul, {}, {x(kHidden), weight({4, 6})}},
      {"matmul of heads",
       OpKind::kMatmul,
       {{"contract", two}},
       {x({2, 4, 2, 4}), weight({6, 2, 4})}},
      {"rotary",
       OpKind::kRotary,
       {{"dims", int64_t{4}}, {"base", 100.0}},
       {x(kQkv), ids(kRowsOf)},
       "g"},
      {"repeat_heads", OpKind::kRepeatHeads, {{"copies", two}}, {x({2, 4, 2, 2, 4})}},
      {"join_heads", OpKind::kJoinHeads, {}, {x({2, 4, 2, 2, 4}), x({2, 4, 2, 2, 4})}, "gps"},
      {"attention", OpKind::kAttention, {{"scale", 0.5}}, {x(kQkv)}, "gd"},
      {"attention with dropout",
       OpKind::kAttention,
       {{"scale", 0.5}, {"dropout", 0.3}, {"key", one}},
       {x(kQkv), samples(), step()},
       "gds"},
      {"attention within documents",
       OpKind::kAttention,
       {{"scale", 0.5}, {"seen", "documents"}},
       {x(kQkv), ids(kRowsOf)},
       "gdt"},
      {"attention with biases",
       OpKind::kAttention,
       {{"scale", 1.0}, {"whole", one}, {"bias_distance", int64_t{9}}},
       {x({2, 4, 2, 3, 8}), weight({2, 8})},
       "gdtn"},
      {"attention across",
       OpKind::kAttention,
       {{"scale", 1.0}, {"across", one}, {"whole", one}, {"seen", "padding"}},
       {x({2, 4, 2, 1, 8}), x({2, 6, 2, 2, 8}), ids({2, 6})},
       "gdtsp"},
      {"attention_scores", OpKind::kAttentionScores, {{"scale", 0.5}}, {x(kQkv)}, "gdts"},
      {"softmax", OpKind::kSoftmax, {}, {x(kPairs)}},
      {"attention_mix", OpKind::kAttentionMix, {}, {x(kPairs), x(kQkv)}, "gdts"},
      {"gelu", OpKind::kGelu, {{"form", "erf"}}, {x(kHidden)}},
      {"gelu with bias",
       OpKind::kGelu,
       {{"form", "tanh"}, {"bias", one}},
       {x(kHidden), weight(kVector)}},
      {"sum", OpKind::kSum, {{"terms", two}}, {x(kHidden), x(kHidden), weight(kVector)}},
      {"dropout",
       OpKind::kDropout,
       {{"p", 0.3}, {"key", one}},
       {x(kHidden), samples(), step()},
       "s"},
      {"dropout of pairs",
       OpKind::kDropout,
       {{"p", 0.3}, {"key", one}},
       {x(kPairs), samples(), step()},
       "ds"},
      {"cross_entropy", OpKind::kCrossEntropy, {}, {x(kHidden), ids(kRowsOf)}, "vr"},
      {"linear_cross_entropy",
       OpKind::kLinearCrossEntropy,
       {},
       {x({2, 4, 4}), weight({kRows, 4}), ids(kRowsOf)},
       "vr"},
      {"logits_max", OpKind::kLogitsMax, {}, {known(kHidden)}},
      {"logits_sums", OpKind::kLogitsSums, {}, {known(kHidden), known(kRowsOf), ids(kRowsOf)}, "s"},
      {"divided_cross_entropy",
       OpKind::kDividedCrossEntropy,
       {},
       {x(kHidden), known(kRowsOf), known({2, 4, 2}), ids(kRowsOf)},
       "sr"},
  };
}

inline std::vector<Case> backwards() {
  return {
      {"repeat_heads_grad", OpKind::kRepeatHeadsGrad, {{"copies", two}}, {x({2, 4, 4, 2, 4})}},
      {"join_heads_grad", OpKind::kJoinHeadsGrad, {}, {x({2, 4, 2, 4, 4})}, "gps"},
      {"embedding_grad", OpKind::kEmbeddingGrad, {{"rows", kRows}}, {ids(kRowsOf), x({2, 4, 4})}},
      {"norm_grad",
       OpKind::kNormGrad,
       {},
       {x(kHidden), x({2, 4, 2}), x(kVector), x(kHidden)},
       "s",
       {" -1 -1 -3 -1 -> -3 -1 -1"}},
      {"norm_grad that adds",
       OpKind::kNormGrad,
       {{"add", one}},
       {x(kHidden), x({2, 4, 2}), x(kVector), x(kHidden), x(kHidden)},
       "s",
       {" -1 -1 -3 -1 -3 -> -3 -1 -1"}},
      {"norm of a sum",
       OpKind::kNorm,
       {{"terms", two}, {"biases", one}, {"epsilon", 1e-5}},
       {x(kHidden), x(kHidden), x(kVector), x(kVector), x(kVector)},
       "s",
       {" -1 -1 -1 -3 -3 -> -3 -1 -1"}},
      {"rms_norm_grad",
       OpKind::kRmsNormGrad,
       {},
       {x(kHidden), x({2, 4, 2}), x(kVector), x(kHidden)},
       "s",
       {" -1 -1 -3 -1 -> -3 -1"}},
      {"rms_norm_grad that adds",
       OpKind::kRmsNormGrad,
       {{"add", one}},
       {x(kHidden), x({2, 4, 2}), x(kVector), x(kHidden), x(kHidden)},
       "s",
       {" -1 -1 -3 -1 -3 -> -3 -1"}},
      {"gated_activation_grad",
       OpKind::kGatedActivationGrad,
       {{"form", "silu"}},
       {x({2, 4, 6, 2}), x(kHidden)},
       "g"},
      {"matmul_grad_input", OpKind::kMatmulGradInput, {}, {x({2, 4, 4}), x({4, 6})}},
      {"matmul_grad_weight", OpKind::kMatmulGradWeight, {}, {x({2, 4, 4}), x(kHidden)}},
      {"attention_grad",
       OpKind::kAttentionGrad,
       {{"scale", 0.5}},
       {x(kQkv), x(kOut), x(kLse), x(kOut)},
       "gd"},
      {"attention_scores_grad",
       OpKind::kAttentionScoresGrad,
       {{"scale", 0.5}},
       {x(kQkv), x(kPairs), x(kQkv)},
       "gdts"},
      {"softmax_grad", OpKind::kSoftmaxGrad, {}, {x(kPairs), x(kPairs)}},
      {"attention_mix_grad",
       OpKind::kAttentionMixGrad,
       {},
       {x(kPairs), x(kQkv), x(kOut)},
       "gdts",
       {" -1 -3 -1 -> -3 -1", " -3 -1 -1 -> -1 -3"}},
      {"scale", OpKind::kScale, {{"factor", 0.5}}, {x(kHidden)}},
      {"accumulate", OpKind::kAccumulate, {}, {x(kHidden)}},
      {"gelu_grad", OpKind::kGeluGrad, {{"form", "erf"}}, {x(kHidden), x(kHidden)}},
      {"gelu_grad with bias",
       OpKind::kGeluGrad,
       {{"form", "erf"}, {"bias", one}},
       {x(kHidden), x(kVector), x(kHidden)}},
      {"dropout_grad", OpKind::kDropoutGrad, {{"p", 0.3}}, {x(kHidden), mask(kHidden)}},
      {"bias_grad", OpKind::kBiasGrad, {{"dims", one}, {"count", two}}, {x(kHidden)}},
      {"cast", OpKind::kCast, {{"to", "bf16"}}, {x(kHidden)}},
      {"copy", OpKind::kCopy, {}, {x(kHidden)}},
  };
}

}  // namespace tessera::testing

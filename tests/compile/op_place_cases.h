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
  OpAttributes attributes;
  std::vector<In> inputs;
  // Labels whose parts the kernel cannot even be called with: pairs and slots of packed heads, a
  // label in a vocabulary that is said to be whole.
  const char* whole = "";
  // Sound, but no signature, which has all outputs partial or none. No pass asks for these: weights
  // and probabilities are never partial.
  std::vector<std::string> needless = {};
};

inline constexpr int64_t kRows = 6;  // of tables; ids are below
inline const Shape kHidden = {2, 4, 6}, kRowsOf = {2, 4}, kVector = {6};
inline const Shape kQkv = {2, 4, 2, 4, 8}, kOut = {2, 4, 4, 8}, kLse = {2, 4, 4},
                   kPairs = {2, 4, 4, 4};

inline std::vector<Case> forwards() {
  return {
      {"embedding", Embedding{}, {ids(kRowsOf), weight({kRows, 4})}},
      {"norm",
       Norm{.epsilon = 1e-5},
       {x(kHidden), weight(kVector), weight(kVector)},
       "s",
       {" -2 -3 -3 -> -3 -1"}},
      {"rms_norm",
       RmsNorm{.epsilon = 1e-5},
       {x(kHidden), weight(kVector)},
       "s",
       {" -2 -3 -> -3 -1"}},
      {"gated_activation", GatedActivation{.form = GateForm::kSilu}, {x({2, 4, 6, 2})}, "g"},
      {"matmul", Matmul{}, {x(kHidden), weight({4, 6})}},
      {"matmul of heads", Matmul{.contract = 2}, {x({2, 4, 2, 4}), weight({6, 2, 4})}},
      {"rotary", Rotary{.dims = 4, .base = 100.0}, {x(kQkv), ids(kRowsOf)}, "g"},
      {"rotary with longrope",
       Rotary{.dims = 4,
              .base = 100.0,
              .scaling = RopeScaling::kLongrope,
              .dividers = {1.5, 2},
              .magnitude = 1.2},
       {x(kQkv), ids(kRowsOf)},
       "g"},
      {"head_norm", HeadNorm{.epsilon = 1e-5}, {x(kQkv), weight({8}), weight({8})}, "gd"},
      {"head_norm over all heads",
       HeadNorm{.epsilon = 0.4, .unit_offset = true, .whole = true},
       {x(kQkv), weight({2, 2, 8}), weight({2, 8}), x({2, 4, 2})},
       "gdqs",
       {" -3 -2 -2 -2 -> -3"}},
      {"head_squares", HeadSquares{}, {x(kQkv)}, "gds"},
      {"rms_norm with a unit offset",
       RmsNorm{.epsilon = 1e-5, .unit_offset = true},
       {x(kHidden), weight(kVector)},
       "s"},
      {"repeat_heads", RepeatHeads{.copies = 2}, {x({2, 4, 2, 2, 4})}},
      {"join_heads", JoinHeads{}, {x({2, 4, 2, 2, 4}), x({2, 4, 2, 2, 4})}, "gps"},
      {"attention", Attention{.scale = 0.5}, {x(kQkv)}, "gd"},
      {"attention with a window and a soft cap",
       Attention{.scale = 0.5, .window = 2, .soft_cap = 0.7},
       {x(kQkv)},
       "gd"},
      {"attention with dropout",
       Attention{.scale = 0.5, .dropout = 0.3, .key = 1},
       {x(kQkv), samples(), step()},
       "gds"},
      {"attention within documents",
       Attention{.scale = 0.5, .mask = Mask::kDocuments},
       {x(kQkv), ids(kRowsOf)},
       "gdt"},
      {"attention with biases",
       Attention{.scale = 1.0, .non_causal = true, .bias_distance = 9},
       {x({2, 4, 2, 3, 8}), weight({2, 8})},
       "gdtn"},
      {"attention across",
       Attention{.scale = 1.0, .separate_kv = true, .non_causal = true, .mask = Mask::kPadding},
       {x({2, 4, 2, 1, 8}), x({2, 6, 2, 2, 8}), ids({2, 6})},
       "gdtsp"},
      {"attention of a part of the queries",
       Attention{.scale = 0.5, .separate_kv = true, .window = 3},
       {x({2, 4, 2, 2, 8}), x({2, 4, 2, 2, 8})},
       "gdsp"},
      {"attention of a part of the queries with dropout",
       Attention{.scale = 0.5, .separate_kv = true, .dropout = 0.3, .key = 1},
       {x({2, 4, 2, 2, 8}), x({2, 4, 2, 2, 8}), samples(), step()},
       "gdspe"},
      {"attention_scores", AttentionScores{.scale = 0.5}, {x(kQkv)}, "gdts"},
      {"attention_scores with a window and a soft cap",
       AttentionScores{.scale = 0.5, .window = 2, .soft_cap = 0.7},
       {x(kQkv)},
       "gdts"},
      {"softmax", Softmax{}, {x(kPairs)}},
      {"attention_mix", AttentionMix{}, {x(kPairs), x(kQkv)}, "gdts"},
      {"gelu", Gelu{.form = GeluForm::kErf}, {x(kHidden)}},
      {"gelu with bias",
       Gelu{.form = GeluForm::kTanh, .bias = true},
       {x(kHidden), weight(kVector)}},
      {"sum", Sum{.terms = 2}, {x(kHidden), x(kHidden), weight(kVector)}},
      {"dropout", Dropout{.p = 0.3, .key = 1}, {x(kHidden), samples(), step()}, "s"},
      {"dropout of pairs", Dropout{.p = 0.3, .key = 1}, {x(kPairs), samples(), step()}, "ds"},
      {"cross_entropy", CrossEntropy{}, {x(kHidden), ids(kRowsOf)}, "vr"},
      {"cross_entropy with a soft cap",
       CrossEntropy{.soft_cap = 0.7},
       {x(kHidden), ids(kRowsOf)},
       "vr"},
      {"linear_cross_entropy with a soft cap",
       LinearCrossEntropy{.soft_cap = 0.7},
       {x({2, 4, 4}), weight({kRows, 4}), ids(kRowsOf)},
       "vr"},
      {"linear_cross_entropy",
       LinearCrossEntropy{},
       {x({2, 4, 4}), weight({kRows, 4}), ids(kRowsOf)},
       "vr"},
      {"route", Route{.chosen = 2}, {x(kHidden)}, "ek"},
      {"experts",
       Experts{.experts = kRows},
       {x({2, 4, 4}), ids({2, 4, 2}), x({2, 4, 2}), weight({kRows, 4, 2, 4}),
        weight({kRows, 4, 4})},
       "p"},
      {"experts that save",  // does not write the pairs of other ranks' experts
       Experts{.experts = kRows, .saves = true},
       {x({2, 4, 4}), ids({2, 4, 2}), x({2, 4, 2}), weight({kRows, 4, 2, 4}),
        weight({kRows, 4, 4})},
       "ep",
       {" -2 -1 -2 -2 -3 -> -3 -1", " -2 -1 -3 -2 -2 -> -3 -1"}},
      {"router_loss",
       RouterLoss{{.balance = 0.1, .z = 0.01}},
       {x(kHidden), x(kHidden), ids({2, 4, 2}), ids(kRowsOf)},
       "er"},
      {"logits_max", LogitsMax{}, {known(kHidden)}},
      {"logits_max with a soft cap", LogitsMax{.soft_cap = 0.7}, {known(kHidden)}},
      {"logits_sums", LogitsSums{}, {known(kHidden), known(kRowsOf), ids(kRowsOf)}, "s"},
      {"logits_sums with a soft cap",
       LogitsSums{.soft_cap = 0.7},
       {known(kHidden), known(kRowsOf), ids(kRowsOf)},
       "s"},
      {"divided_cross_entropy with a soft cap",
       DividedCrossEntropy{.soft_cap = 0.7},
       {x(kHidden), known(kRowsOf), known({2, 4, 2}), ids(kRowsOf)},
       "sr"},
      {"divided_cross_entropy",
       DividedCrossEntropy{},
       {x(kHidden), known(kRowsOf), known({2, 4, 2}), ids(kRowsOf)},
       "sr"},
  };
}

inline std::vector<Case> backwards() {
  return {
      {"repeat_heads_grad", RepeatHeadsGrad{.copies = 2}, {x({2, 4, 4, 2, 4})}},
      {"split_heads", SplitHeads{}, {x({2, 4, 2, 4, 4})}, "gps"},
      {"route_grad", RouteGrad{}, {x(kHidden), ids({2, 4, 2}), x({2, 4, 2})}, "e"},
      {"embedding_grad", EmbeddingGrad{.rows = kRows}, {ids(kRowsOf), x({2, 4, 4})}},
      {"norm_grad",
       NormGrad{},
       {x(kHidden), x({2, 4, 2}), x(kVector), x(kHidden)},
       "s",
       {" -1 -1 -3 -1 -> -3 -1 -1"}},
      {"norm_grad that adds",
       NormGrad{.add = true},
       {x(kHidden), x({2, 4, 2}), x(kVector), x(kHidden), x(kHidden)},
       "s",
       {" -1 -1 -3 -1 -3 -> -3 -1 -1"}},
      {"norm of a sum",
       Norm{.epsilon = 1e-5, .terms = 2, .biases = 1},
       {x(kHidden), x(kHidden), x(kVector), x(kVector), x(kVector)},
       "s",
       {" -1 -1 -1 -3 -3 -> -3 -1 -1"}},
      {"rms_norm_grad",
       RmsNormGrad{},
       {x(kHidden), x({2, 4, 2}), x(kVector), x(kHidden)},
       "s",
       {" -1 -1 -3 -1 -> -3 -1"}},
      {"rms_norm_grad that adds",
       RmsNormGrad{.add = true},
       {x(kHidden), x({2, 4, 2}), x(kVector), x(kHidden), x(kHidden)},
       "s",
       {" -1 -1 -3 -1 -3 -> -3 -1"}},
      {"gated_activation_grad",
       GatedActivationGrad{.form = GateForm::kSilu},
       {x({2, 4, 6, 2}), x(kHidden)},
       "g"},
      {"matmul_grad_input", MatmulGradInput{}, {x({2, 4, 4}), x({4, 6})}},
      {"matmul_grad_weight", MatmulGradWeight{}, {x({2, 4, 4}), x(kHidden)}},
      {"attention_grad", AttentionGrad{{.scale = 0.5}}, {x(kQkv), x(kOut), x(kLse), x(kOut)}, "gd"},
      {"attention_scores_grad",
       AttentionScoresGrad{{.scale = 0.5}},
       {x(kQkv), x(kPairs), x(kQkv)},
       "gdts"},
      {"attention_scores_grad with a soft cap",
       AttentionScoresGrad{{.scale = 0.5, .soft_cap = 0.7}},
       {x(kQkv), x(kPairs), x(kQkv)},
       "gdts"},
      {"softmax_grad", SoftmaxGrad{}, {x(kPairs), x(kPairs)}},
      {"attention_mix_grad",
       AttentionMixGrad{},
       {x(kPairs), x(kQkv), x(kOut)},
       "gdts",
       {" -1 -3 -1 -> -3 -1", " -3 -1 -1 -> -1 -3"}},
      {"scale", Scale{.factor = 0.5}, {x(kHidden)}},
      {"scale by a rounded factor", Scale{.factor = 55.4, .rounded = true}, {x(kHidden)}},
      {"soft_cap", SoftCap{.cap = 0.7}, {x(kHidden)}},
      {"head_norm_grad", HeadNormGrad{{.epsilon = 1e-5}}, {x(kQkv), x({8}), x({8}), x(kQkv)}, "gd"},
      {"head_norm_grad over all heads",
       HeadNormGrad{{.epsilon = 0.4, .whole = true}},
       {x(kQkv), x({2, 2, 8}), x({2, 8}), x(kQkv), x({2, 4, 2})},
       "gdqs",
       {" -3 -1 -1 -1 -1 -> -1 -3 -3 -3"}},
      {"head_squares_grad", HeadSquaresGrad{}, {x(kQkv), x({2, 4, 2}), x(kQkv)}, "gds"},
      {"accumulate", Accumulate{}, {x(kHidden)}},
      {"gelu_grad", GeluGrad{{.form = GeluForm::kErf}}, {x(kHidden), x(kHidden)}},
      {"gelu_grad with bias",
       GeluGrad{{.form = GeluForm::kErf, .bias = true}},
       {x(kHidden), x(kVector), x(kHidden)}},
      {"dropout_grad", DropoutGrad{.p = 0.3}, {x(kHidden), mask(kHidden)}},
      {"bias_grad", BiasGrad{.dims = 1, .count = 2}, {x(kHidden)}},
      {"cast", Cast{.to = DType::kBF16}, {x(kHidden)}},
      {"copy", Copy{}, {x(kHidden)}},
  };
}

}  // namespace tessera::testing

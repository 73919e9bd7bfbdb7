// All ops: one line each, except the updates of one-pass optimizers, which are made from their
// list. The kind of an op is the index of its type in this list.
#pragma once

#include <array>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/enum_array.h"
#include "ir/ops/adapters.h"
#include "ir/ops/attention.h"
#include "ir/ops/cast.h"
#include "ir/ops/communicate.h"
#include "ir/ops/cross_entropy.h"
#include "ir/ops/dequantize.h"
#include "ir/ops/dropout.h"
#include "ir/ops/embedding.h"
#include "ir/ops/expert_bias.h"
#include "ir/ops/experts.h"
#include "ir/ops/gated_activation.h"
#include "ir/ops/gelu.h"
#include "ir/ops/head_norm.h"
#include "ir/ops/heads.h"
#include "ir/ops/latent_heads.h"
#include "ir/ops/materialized_attention.h"
#include "ir/ops/matmul.h"
#include "ir/ops/max_scores.h"
#include "ir/ops/muon.h"
#include "ir/ops/norm.h"
#include "ir/ops/preference.h"
#include "ir/ops/rotary.h"
#include "ir/ops/router.h"
#include "ir/ops/scale.h"
#include "ir/ops/step.h"
#include "ir/ops/sum.h"
#include "ir/ops/update.h"
#include "ir/ops/vocab_parallel_cross_entropy.h"

namespace tessera {

template <class... Ts>
struct TypeList {
  static constexpr int kSize = sizeof...(Ts);
  using Variant = std::variant<Ts...>;
};

template <class... As, class... Bs, class... Cs>
TypeList<As..., Bs..., Cs...> joined(TypeList<As...>, TypeList<Bs...>, TypeList<Cs...>);

// The update ops of kOnePassOptimizers.
template <size_t... kIndex>
TypeList<OnePassUpdate<kOnePassOptimizers[kIndex]>...> updates(std::index_sequence<kIndex...>);
using OnePassUpdates = decltype(updates(std::make_index_sequence<kOnePassOptimizers.size()>()));

using OpTypes = decltype(joined(TypeList<Embedding,                  //
                                         EmbeddingGrad,              //
                                         Norm,                       //
                                         NormGrad,                   //
                                         RmsNorm,                    //
                                         RmsNormGrad,                //
                                         Matmul,                     //
                                         MatmulGradInput,            //
                                         MatmulGradWeight,           //
                                         HeadNorm,                   //
                                         HeadNormGrad,               //
                                         HeadSquares,                //
                                         HeadSquaresGrad,            //
                                         Rotary,                     //
                                         RepeatHeads,                //
                                         RepeatHeadsGrad,            //
                                         JoinHeads,                  //
                                         SplitHeads,                 //
                                         JoinPair,                   //
                                         SplitPair,                  //
                                         AddPart,                    //
                                         TakePart,                   //
                                         AdaptedSquares,             //
                                         ScalePart,                  //
                                         ScalePartGrad,              //
                                         DequantizeNf4,              //
                                         LatentHeads,                //
                                         LatentHeadsGrad,            //
                                         Attention,                  //
                                         AttentionGrad,              //
                                         AttentionSinksGrad,         //
                                         CachedAttention,            //
                                         MaxScores,                  //
                                         AttentionScores,            //
                                         AttentionScoresGrad,        //
                                         Softmax,                    //
                                         SoftmaxGrad,                //
                                         AttentionMix,               //
                                         AttentionMixGrad,           //
                                         Gelu,                       //
                                         GeluGrad,                   //
                                         GatedActivation,            //
                                         GatedActivationGrad,        //
                                         Route,                      //
                                         RouteGrad,                  //
                                         ExpertCapacity,             //
                                         RouterLoss,                 //
                                         RouterLossGrad,             //
                                         RouterLoad,                 //
                                         BalanceUpdate,              //
                                         Experts,                    //
                                         ExpertsGrad,                //
                                         ExpertBias,                 //
                                         ExpertBiasGrad,             //
                                         Sum,                        //
                                         Scale,                      //
                                         SoftCap,                    //
                                         Accumulate,                 //
                                         BiasGrad,                   //
                                         Dropout,                    //
                                         DropoutGrad,                //
                                         Cast,                       //
                                         Copy,                       //
                                         CrossEntropy,               //
                                         LinearCrossEntropy,         //
                                         LogitsMax,                  //
                                         LogitsSums,                 //
                                         VocabParallelCrossEntropy,  //
                                         LogitsSumsGrad,             //
                                         AnswerSums,                 //
                                         AnswerSumsGrad,             //
                                         PreferenceLoss,             //
                                         Clear,                      //
                                         Pack,                       //
                                         Squares,                    //
                                         Clip>(),
                                OnePassUpdates(),
                                TypeList<WeightAverage,     //
                                         AdafactorSums,     //
                                         AdafactorSquares,  //
                                         Adafactor,         //
                                         MuonDirection,     //
                                         NewtonSchulz,      //
                                         Muon,              //
                                         AllReduce,         //
                                         ReduceScatter,     //
                                         AllGather,         //
                                         AllToAll,          //
                                         Rotate,            //
                                         Slice,             //
                                         Pad,               //
                                         MarkShared,        //
                                         Send,              //
                                         Receive>()));

// The number of an op's type in OpTypes, for tables and names: kind_of<Rotary>().
enum class OpKind : uint8_t {};
constexpr int kOpKinds = OpTypes::kSize;
constexpr size_t count_of(OpKind) { return kOpKinds; }

template <class A, class... Ts>
constexpr int index_of(TypeList<Ts...>) {
  int index = 0;
  const bool found = ((std::is_same_v<A, Ts> || (++index, false)) || ...);
  return found ? index : kOpKinds;
}

template <class A>
constexpr OpKind kind_of() {
  constexpr int kIndex = index_of<A>(OpTypes());
  static_assert(kIndex < kOpKinds, "not an op: add it to OpTypes");
  return static_cast<OpKind>(kIndex);
}

std::string_view name_of(OpKind kind);
std::optional<OpKind> op_kind_named(std::string_view name);

}  // namespace tessera

// Lists all kernels, one line each. A table has the kernels of one device.
#pragma once

#include "kernels/adafactor.h"
#include "kernels/adapters.h"
#include "kernels/attention.h"
#include "kernels/attention_parts.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/expert_bias.h"
#include "kernels/gated_activation.h"
#include "kernels/gelu.h"
#include "kernels/gradient_norm.h"
#include "kernels/head_norm.h"
#include "kernels/kernel.h"
#include "kernels/latent_heads.h"
#include "kernels/muon.h"
#include "kernels/nf4.h"
#include "kernels/norm.h"
#include "kernels/preference.h"
#include "kernels/rotary.h"
#include "kernels/router.h"
#include "kernels/sum.h"
#include "kernels/update.h"
#include "kernels/vocab_parallel_cross_entropy.h"

namespace tessera::kernels {

using AllArgs = ArgsList<ClearArgs,                      //
                         CopyArgs,                       //
                         CopyRowsArgs,                   //
                         CastArgs,                       //
                         ScaleArgs,                      //
                         SoftCapArgs,                    //
                         SumArgs,                        //
                         BiasGradArgs,                   //
                         NormArgs,                       //
                         SumNormArgs,                    //
                         NormGradArgs,                   //
                         GeluArgs,                       //
                         GeluGradArgs,                   //
                         GatedActivationArgs,            //
                         GatedActivationGradArgs,        //
                         DropoutArgs,                    //
                         DropoutGradArgs,                //
                         EmbeddingArgs,                  //
                         EmbeddingGradArgs,              //
                         HeadNormArgs,                   //
                         HeadNormGradArgs,               //
                         HeadSquaresArgs,                //
                         HeadSquaresGradArgs,            //
                         AddPartArgs,                    //
                         ScalePartArgs,                  //
                         ScalePartGradArgs,              //
                         AdaptedSquaresArgs,             //
                         DequantizeNf4Args,              //
                         LatentHeadsArgs,                //
                         LatentHeadsGradArgs,            //
                         RotaryArgs,                     //
                         RouteArgs,                      //
                         RouteGradArgs,                  //
                         ExpertCapacityArgs,             //
                         RouterLossArgs,                 //
                         RouterLossGradArgs,             //
                         RouterLoadArgs,                 //
                         BalanceUpdateArgs,              //
                         ExpertBiasArgs,                 //
                         ExpertBiasGradArgs,             //
                         AttentionArgs,                  //
                         AttentionGradArgs,              //
                         SinksGradArgs,                  //
                         CachedAttentionArgs,            //
                         MaxScoresArgs,                  //
                         AttentionScoresArgs,            //
                         AttentionScoresGradArgs,        //
                         SoftmaxArgs,                    //
                         SoftmaxGradArgs,                //
                         AttentionMixArgs,               //
                         AttentionMixGradArgs,           //
                         CrossEntropyArgs,               //
                         LogitsMaxArgs,                  //
                         LogitsSumsArgs,                 //
                         VocabParallelCrossEntropyArgs,  //
                         LogitsSumsGradArgs,             //
                         AnswerSumsArgs,                 //
                         AnswerSumsGradArgs,             //
                         PreferenceLossArgs,             //
                         SquaresArgs,                    //
                         FirstNonFiniteArgs,             //
                         ClipArgs,                       //
                         UpdateArgs,                     //
                         WeightAverageArgs,              //
                         FactorSumsArgs,                 //
                         FactorMeansArgs,                //
                         FactorScalesArgs,               //
                         UpdateSquaresArgs,              //
                         AdafactorArgs,                  //
                         DirectionArgs,                  //
                         UnitNormArgs,                   //
                         MuonArgs>;
using KernelTable = TableOf<AllArgs>;

template <class Device, class Args>
constexpr Kernel<Args> kernel_on() {
  return {[](const Launch& l, const Args& a) { launch(Device(), l, a); },
          [](const Args& a, int threads) { return workspace_bytes(Device(), a, threads); }};
}

template <class Device, class... Args>
constexpr TableOf<ArgsList<Args...>> table_of(ArgsList<Args...>) {
  return TableOf<ArgsList<Args...>>(kernel_on<Device, Args>()...);
}

const KernelTable& cpu_kernels();
const KernelTable& gpu_kernels();  // only if why_no_gpu() returns nothing

}  // namespace tessera::kernels

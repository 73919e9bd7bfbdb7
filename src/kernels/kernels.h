// All kernels: one line each. A table has those of a device.
#pragma once

#include "kernels/adafactor.h"
#include "kernels/attention.h"
#include "kernels/attention_parts.h"
#include "kernels/cast.h"
#include "kernels/clip.h"
#include "kernels/copy.h"
#include "kernels/cross_entropy.h"
#include "kernels/divided_cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/embedding.h"
#include "kernels/fill.h"
#include "kernels/gated_activation.h"
#include "kernels/gelu.h"
#include "kernels/head_norm.h"
#include "kernels/kernel.h"
#include "kernels/norm.h"
#include "kernels/rotary.h"
#include "kernels/scale.h"
#include "kernels/squares.h"
#include "kernels/sum.h"
#include "kernels/update.h"

namespace tessera::kernels {

using AllArgs = ArgsList<ClearArgs,                //
                         CopyArgs,                 //
                         CopyRowsArgs,             //
                         CastArgs,                 //
                         ScaleArgs,                //
                         SoftCapArgs,              //
                         SumArgs,                  //
                         BiasGradArgs,             //
                         NormArgs,                 //
                         SumNormArgs,              //
                         NormGradArgs,             //
                         GeluArgs,                 //
                         GeluGradArgs,             //
                         GatedActivationArgs,      //
                         GatedActivationGradArgs,  //
                         DropoutArgs,              //
                         DropoutGradArgs,          //
                         EmbeddingArgs,            //
                         EmbeddingGradArgs,        //
                         HeadNormArgs,             //
                         HeadNormGradArgs,         //
                         HeadSquaresArgs,          //
                         HeadSquaresGradArgs,      //
                         RotaryArgs,               //
                         AttentionArgs,            //
                         AttentionGradArgs,        //
                         CachedAttentionArgs,      //
                         AttentionScoresArgs,      //
                         AttentionScoresGradArgs,  //
                         SoftmaxArgs,              //
                         SoftmaxGradArgs,          //
                         AttentionMixArgs,         //
                         AttentionMixGradArgs,     //
                         CrossEntropyArgs,         //
                         LogitsMaxArgs,            //
                         LogitsSumsArgs,           //
                         DividedCrossEntropyArgs,  //
                         SquaresArgs,              //
                         FirstNonFiniteArgs,       //
                         ClipArgs,                 //
                         UpdateArgs,               //
                         FactorSumsArgs,           //
                         FactorMeansArgs,          //
                         FactorScalesArgs,         //
                         UpdateSquaresArgs,        //
                         AdafactorArgs>;
using KernelTable = TableOf<AllArgs>;

const KernelTable& cpu_kernels();
const KernelTable& gpu_kernels();  // only if why_no_gpu() returns nothing

}  // namespace tessera::kernels

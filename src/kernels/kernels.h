// The kernels of a device as one table: what an op's binding calls without knowing where its
// operands lie. Each does what the header of its name says. On the CPU it does so at once; on a GPU
// it is enqueued in the stream, memory is the device's, and no call waits.
#pragma once

#include "kernels/adafactor.h"
#include "kernels/attention.h"
#include "kernels/attention_parts.h"
#include "kernels/clip.h"
#include "kernels/cross_entropy.h"
#include "kernels/divided_cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/embedding.h"
#include "kernels/gated_activation.h"
#include "kernels/gelu.h"
#include "kernels/norm.h"
#include "kernels/rotary.h"
#include "kernels/update.h"
#include "tensor/gpu.h"

namespace tessera::kernels {

using View = const TensorView&;
using Views = std::span<const TensorView>;

struct Kernels {
  void (*clear)(Stream, View y);
  void (*copy)(Stream, View from, View to);  // all bytes of `to`
  void (*copy_rows)(Stream, const RowCopy&);
  void (*cast)(Stream, View x, View y);
  void (*scale)(Stream, View x, float factor, View y);
  void (*sum)(Stream, Views terms, Views biases, View out);
  void (*bias_grad)(Stream, View dy, View dbias, void* workspace);
  void (*norm)(Stream, View x, const Norm&);
  void (*sum_norm)(Stream, Views terms, Views biases, View out, const Norm&);
  void (*norm_grad)(Stream, const NormGrad&, void* workspace);
  void (*gelu)(Stream, GeluKind, View x, View bias, View y);
  void (*gelu_grad)(Stream, const GeluGrad&, void* workspace);
  void (*gated_activation)(Stream, GateKind, View x, View y);
  void (*gated_activation_grad)(Stream, const GatedActivationGrad&);
  void (*dropout)(Stream, View x, View samples, const Dropout&, View y, const DropoutWindow&,
                  View mask);
  void (*dropout_grad)(Stream, View dy, View mask, float probability, View dx);
  void (*embedding)(Stream, View ids, View table, View y, const TableRows&);
  void (*embedding_grad)(Stream, View ids, View dy, View d_table, const TableRows&,
                         void* workspace);
  void (*rotary)(Stream, View qkv, View positions, const Rotary&, void* workspace);
  void (*attention)(Stream, const Attention&, void* workspace);
  void (*attention_grad)(Stream, const AttentionGrad&, void* workspace);
  void (*cached_attention)(Stream, const CachedAttention&, void* workspace);
  void (*attention_scores)(Stream, View qkv, float scale, View scores, int threads,
                           void* workspace);
  void (*attention_scores_grad)(Stream, View qkv, float scale, View d_scores, View d_qkv,
                                int threads, void* workspace);
  void (*softmax)(Stream, View x, View y);
  void (*softmax_grad)(Stream, View y, View dy, View dx);
  void (*attention_mix)(Stream, View qkv, View probabilities, View out, int threads,
                        void* workspace);
  void (*attention_mix_grad)(Stream, const AttentionMixGrad&, void* workspace);
  void (*cross_entropy)(Stream, const CrossEntropy&, void* workspace, int threads);
  void (*logits_max)(Stream, const DividedLogits&, View max);
  void (*logits_sums)(Stream, const DividedLogits&, View max, View labels, View sums);
  void (*divided_cross_entropy)(Stream, const DividedCrossEntropy&);
  void (*squares)(Stream, View x, void* workspace, double* sum);  // *sum += sum of squares
  void (*first_non_finite)(Stream, View x, void* workspace, int64_t* first);  // -1: all are finite
  void (*clip)(Stream, const Clip&);
  // `step` gives what is constant over a run, `numbers` the rest.
  void (*update)(Stream, UpdateRule, const Update&, const UpdateStep& step,
                 const UpdateNumbers& numbers);
  // Adafactor's parts (kernels/adafactor.h). Nothing is added, mixed or updated in a step that is
  // skipped.
  void (*add_factor_sums)(Stream, View gradient, const FactorStretch&, const UpdateNumbers&,
                          double epsilon, void* workspace, double* rows, double* columns);
  void (*update_factors)(Stream, const FactorShape&, const UpdateNumbers&, double decay_power,
                         const double* row_sums, const double* column_sums, float* rows,
                         float* columns);
  void (*factor_scales)(Stream, const FactorShape&, const float* rows, const float* columns,
                        float* row_scales, float* column_scales);
  void (*add_update_squares)(Stream, View gradient, const FactorStretch&, const UpdateNumbers&,
                             const FactorScales&, void* workspace, double* sum);
  void (*adafactor)(Stream, const Update&, const UpdateStep& step, const UpdateNumbers&,
                    const FactorScales&, const FactorNorms&);

  // Bytes of workspaces; the arguments are those of the functions of kernels/*.h.
  struct Workspaces {
    int64_t (*norm_grad)(int64_t n, int64_t d);
    int64_t (*gelu_grad)(int64_t n, int64_t d);
    int64_t (*bias_grad)(int64_t n, int64_t d);
    int64_t (*embedding_grad)(int64_t n, DType table);
    int64_t (*rotary)(int64_t positions, const Rotary&);
    int64_t (*squares)(int64_t n);  // of update squares, too
    int64_t (*first_non_finite)(int64_t n);
    // Of any stretches of n elements, of weights with so many rows and columns together.
    int64_t (*factor_sums)(int64_t n, int64_t factors);
    int64_t (*cross_entropy)(int64_t rows);
    int64_t (*attention)(View qkv, View kv, int threads);
    int64_t (*attention_grad)(View qkv, View kv, int64_t buckets, int threads);
    int64_t (*cached_attention)(int64_t context, int64_t d, int threads);
    int64_t (*attention_parts)(int64_t t, int64_t d, int threads);
  } workspace;
};

const Kernels& cpu_kernels();
const Kernels& gpu_kernels();  // only where why_no_gpu() says nothing

}  // namespace tessera::kernels

// Views as operands of launchers.
#pragma once

#include "base/error.h"
#include "kernels/cuda/groups.h"
#include "kernels/kernels.h"

namespace tessera::kernels::cuda {

inline Numbers numbers(View v) {
  if (!v) return {};
  CHECK(v.dtype == DType::kF32 || v.dtype == DType::kBF16 || v.dtype == DType::kF16,
        "a kernel for f32, bf16 or f16 got {}", name_of(v.dtype));
  return {v.data, v.dtype};
}

inline bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// The rows of views of `columns` columns, by 16 bytes where all of them allow it.
template <class... V>
Groups groups_of(int64_t rows, int64_t columns, const V&... views) {
  const bool whole = columns % kGroup == 0 || rows == 1;
  return {rows, columns, whole && (aligned(views.data) && ...)};
}

inline int64_t columns_of(View v) { return v.shape[-1]; }
inline int64_t rows_of(View v) { return columns_of(v) > 0 ? v.elements() / columns_of(v) : 0; }

// As the table of kernels has them, by file.
void clear(Stream s, View y);
void copy(Stream s, View from, View to);
void cast(Stream s, View x, View y);
void scale(Stream s, View x, float factor, View y);
void sum(Stream s, Views terms, Views biases, View out);
void bias_grad(Stream s, View dy, View dbias, void* workspace);
void norm(Stream s, View x, const Norm& n);
void sum_norm(Stream s, Views terms, Views biases, View out, const Norm& n);
void norm_grad(Stream s, const NormGrad& a, void* workspace);
void gelu(Stream s, GeluKind kind, View x, View bias, View y);
void gelu_grad(Stream s, const GeluGrad& a, void* workspace);
void gated_activation(Stream s, GateKind kind, View x, View y);
void gated_activation_grad(Stream s, const GatedActivationGrad& a);
void dropout(Stream s, View x, View samples, const Dropout& d, View y, const DropoutWindow& w,
             View mask);
void dropout_grad(Stream s, View dy, View mask, float probability, View dx);
void embedding(Stream s, View ids, View table, View y, const TableRows& rows);
void embedding_grad(Stream s, View ids, View dy, View d_table, const TableRows& rows,
                    void* workspace);
void rotary(Stream s, View qkv, View positions, const Rotary& r, void* workspace);
void attention(Stream s, const Attention& a, void* workspace);
void attention_grad(Stream s, const AttentionGrad& a, void* workspace);
void cached_attention(Stream s, const CachedAttention& a, void* workspace);
void attention_scores(Stream s, View qkv, float scale, View scores, int threads, void* workspace);
void attention_scores_grad(Stream s, View qkv, float scale, View d_scores, View d_qkv, int threads,
                           void* workspace);
void softmax(Stream s, View x, View y);
void softmax_grad(Stream s, View y, View dy, View dx);
void attention_mix(Stream s, View qkv, View probabilities, View out, int threads, void* workspace);
void attention_mix_grad(Stream s, const AttentionMixGrad& a, void* workspace);
int64_t attention_grad_bytes(View qkv, View kv, int64_t buckets);
void cross_entropy(Stream s, const CrossEntropy& a, void* workspace, int threads);
void logits_max(Stream s, const DividedLogits& l, View max);
void logits_sums(Stream s, const DividedLogits& l, View max, View labels, View sums);
void divided_cross_entropy(Stream s, const DividedCrossEntropy& a);
void squares(Stream s, View x, void* workspace, double* sum);
void first_non_finite(Stream s, View x, void* workspace, int64_t* first);
void clip(Stream s, const Clip& c);
void update(Stream s, UpdateRule rule, const Update& u, const UpdateStep& step,
            const UpdateNumbers& n);
void add_factor_sums(Stream s, View gradient, const FactorStretch& stretch, const UpdateNumbers& n,
                     double epsilon, void* workspace, double* rows, double* columns);
void update_factors(Stream s, const FactorShape& shape, const UpdateNumbers& n, double decay_power,
                    const double* row_sums, const double* column_sums, float* rows, float* columns);
void factor_scales(Stream s, const FactorShape& shape, const float* rows, const float* columns,
                   float* row_scales, float* column_scales);
void add_update_squares(Stream s, View gradient, const FactorStretch& stretch,
                        const UpdateNumbers& n, const FactorScales& scales, void* workspace,
                        double* sum);
void adafactor(Stream s, const Update& u, const UpdateStep& step, const UpdateNumbers& n,
               const FactorScales& scales, const FactorNorms& norms);

}  // namespace tessera::kernels::cuda

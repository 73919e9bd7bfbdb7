// The functions of the table of kernels (kernels/kernels.h), each in the file of its name.
#pragma once

#include "kernels/kernels.h"

namespace tessera::kernels::gpu {

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

// Bytes of workspace: the arguments are those of Kernels::Workspaces.
int64_t bias_grad_bytes(int64_t n, int64_t d);
int64_t norm_grad_bytes(int64_t n, int64_t d);
int64_t gelu_grad_bytes(int64_t n, int64_t d);
int64_t rotary_bytes(int64_t positions, const Rotary& r);
int64_t attention_grad_bytes(View qkv, View kv, int64_t buckets, int threads);
int64_t cross_entropy_bytes(int64_t rows);
int64_t squares_bytes(int64_t n);
int64_t first_non_finite_bytes(int64_t n);
int64_t factor_sums_bytes(int64_t n, int64_t factors);

}  // namespace tessera::kernels::gpu

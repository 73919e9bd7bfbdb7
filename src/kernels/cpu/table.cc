// The table of CPU kernels.
#include <cmath>
#include <cstring>

#include "kernels/cast.h"
#include "kernels/fill.h"
#include "kernels/kernels.h"
#include "kernels/scale.h"
#include "kernels/squares.h"
#include "kernels/sum.h"

namespace tessera::kernels {
namespace {

void copy_rows(Stream, const RowCopy& c) {
  for (int64_t r = 0; r < c.rows; ++r)
    std::memcpy(static_cast<std::byte*>(c.to) + r * c.to_pitch,
                static_cast<const std::byte*>(c.from) + r * c.from_pitch,
                static_cast<size_t>(c.bytes));
}

UpdateStep whole_step(const UpdateStep& constants, const UpdateNumbers& n) {
  UpdateStep s = constants;
  s.learning_rate = *n.learning_rate;
  s.step = static_cast<int64_t>(*n.step);
  s.scale = *n.scale;
  s.skip = *n.skip != 0;
  return s;
}

void update(Stream, UpdateRule rule, const Update& u, const UpdateStep& constants,
            const UpdateNumbers& n) {
  const UpdateStep s = whole_step(constants, n);
  if (rule == UpdateRule::kAdamW) return adamw(u, s);
  if (rule == UpdateRule::kLion) return lion(u, s);
  sgd(u, s);
}

void mix_factors(Stream, const FactorShape& shape, const UpdateNumbers& n, double decay_power,
                 const double* row_sums, const double* column_sums, float* rows, float* columns) {
  if (*n.skip != 0) return;
  update_factors(shape, 1 - std::pow(*n.step, -decay_power), row_sums, column_sums, rows, columns);
}

constexpr Kernels kTable = {
    .clear = [](Stream, View y) { clear(y); },
    .copy = [](Stream, View from,
               View to) { std::memcpy(to.data, from.data, static_cast<size_t>(to.bytes())); },
    .copy_rows = copy_rows,
    .cast = [](Stream, View x, View y) { cast(x, y); },
    .scale = [](Stream, View x, float factor, View y) { scale(x, factor, y); },
    .sum = [](Stream, Views terms, Views biases, View out) { sum(terms, biases, out); },
    .bias_grad = [](Stream, View dy, View dbias, void* w) { bias_grad(dy, dbias, w); },
    .norm = [](Stream, View x, const Norm& n) { norm(x, n); },
    .sum_norm = [](Stream, Views terms, Views biases, View out,
                   const Norm& n) { sum_norm(terms, biases, out, n); },
    .norm_grad = [](Stream, const NormGrad& a, void* w) { norm_grad(a, w); },
    .gelu = [](Stream, GeluKind k, View x, View bias, View y) { gelu(k, x, bias, y); },
    .gelu_grad = [](Stream, const GeluGrad& a, void* w) { gelu_grad(a, w); },
    .gated_activation = [](Stream, GateKind k, View x, View y) { gated_activation(k, x, y); },
    .gated_activation_grad = [](Stream, const GatedActivationGrad& a) { gated_activation_grad(a); },
    .dropout = [](Stream, View x, View samples, const Dropout& d, View y,
                  const DropoutWindow& window,
                  View mask) { dropout(x, samples, d, y, window, mask); },
    .dropout_grad = [](Stream, View dy, View mask, float probability,
                       View dx) { dropout_grad(dy, mask, probability, dx); },
    .embedding = [](Stream, View ids, View table, View y,
                    const TableRows& rows) { embedding(ids, table, y, rows); },
    .embedding_grad = [](Stream, View ids, View dy, View d_table, const TableRows& rows,
                         void* w) { embedding_grad(ids, dy, d_table, rows, w); },
    .rotary = [](Stream, View qkv, View positions, const Rotary& r,
                 void* w) { rotary(qkv, positions, r, w); },
    .attention = [](Stream, const Attention& a, void* w) { attention(a, w); },
    .attention_grad = [](Stream, const AttentionGrad& a, void* w) { attention_grad(a, w); },
    .cached_attention = [](Stream, const CachedAttention& a, void* w) { cached_attention(a, w); },
    .attention_scores = [](Stream, View qkv, float factor, View scores, int threads,
                           void* w) { attention_scores(qkv, factor, scores, threads, w); },
    .attention_scores_grad =
        [](Stream, View qkv, float factor, View d_scores, View d_qkv, int threads, void* w) {
          attention_scores_grad(qkv, factor, d_scores, d_qkv, threads, w);
        },
    .softmax = [](Stream, View x, View y) { softmax(x, y); },
    .softmax_grad = [](Stream, View y, View dy, View dx) { softmax_grad(y, dy, dx); },
    .attention_mix = [](Stream, View qkv, View p, View out, int threads,
                        void* w) { attention_mix(qkv, p, out, threads, w); },
    .attention_mix_grad = [](Stream, const AttentionMixGrad& a,
                             void* w) { attention_mix_grad(a, w); },
    .cross_entropy = [](Stream, const CrossEntropy& a, void* w,
                        int threads) { cross_entropy(a, w, threads); },
    .logits_max = [](Stream, const DividedLogits& l, View max) { logits_max(l, max); },
    .logits_sums = [](Stream, const DividedLogits& l, View max, View labels,
                      View sums) { logits_sums(l, max, labels, sums); },
    .divided_cross_entropy = [](Stream, const DividedCrossEntropy& a) { divided_cross_entropy(a); },
    .squares = [](Stream, View x, void* w, double* sum) { *sum += sum_of_squares(x, w); },
    .first_non_finite = [](Stream, View x, void*, int64_t* first) { *first = first_non_finite(x); },
    .clip = [](Stream, const Clip& c) { clip(c); },
    .update = update,
    .add_factor_sums =
        [](Stream, View gradient, const FactorStretch& s, const UpdateNumbers& n, double epsilon,
           void*, double* rows, double* columns) {
          if (*n.skip == 0) add_factor_sums(gradient, s, *n.scale, epsilon, rows, columns);
        },
    .update_factors = mix_factors,
    .factor_scales =
        [](Stream, const FactorShape& shape, const float* rows, const float* columns,
           float* row_scales, float* column_scales) {
          factor_scales(shape, rows, columns, row_scales, column_scales);
        },
    .add_update_squares =
        [](Stream, View gradient, const FactorStretch& s, const UpdateNumbers& n,
           const FactorScales& scales, void*, double* sum) {
          if (*n.skip == 0) *sum += sum_of_update_squares(gradient, s, *n.scale, scales);
        },
    .adafactor =
        [](Stream, const Update& u, const UpdateStep& constants, const UpdateNumbers& n,
           const FactorScales& scales,
           const FactorNorms& norms) { adafactor(u, whole_step(constants, n), scales, norms); },
    .workspace =
        {
            .norm_grad = norm_grad_workspace_bytes,
            .gelu_grad = gelu_grad_workspace_bytes,
            .bias_grad = bias_grad_workspace_bytes,
            .embedding_grad = embedding_grad_workspace_bytes,
            .rotary = rotary_workspace_bytes,
            .squares = squares_workspace_bytes,
            .first_non_finite = [](int64_t) { return int64_t{0}; },
            .factor_sums = [](int64_t, int64_t) { return int64_t{0}; },
            .cross_entropy = cross_entropy_workspace_bytes,
            .attention =
                [](View qkv, View kv, int threads) {
                  const int64_t keys = kv.shape.rank() > 0 ? kv.shape[1] : 0;
                  return attention_workspace_bytes(qkv.shape[1], qkv.shape[4], threads, keys);
                },
            .attention_grad =
                [](View qkv, View kv, int64_t buckets, int threads) {
                  const bool apart = kv.shape.rank() > 0;
                  const int64_t heads = qkv.shape[2] * (qkv.shape[3] - (apart ? 0 : 2));
                  return attention_grad_workspace_bytes(qkv.shape[1], qkv.shape[4], threads,
                                                        apart ? kv.shape[1] : 0,
                                                        qkv.shape[0] * heads * buckets);
                },
            .cached_attention = cached_attention_workspace_bytes,
            .attention_parts = attention_parts_workspace_bytes,
        }};

}  // namespace

const Kernels& cpu_kernels() { return kTable; }

}  // namespace tessera::kernels

#include "kernels/gpu/table.h"

namespace tessera::kernels {
namespace {

constexpr Kernels kTable = {
    .clear = gpu::clear,
    .copy = gpu::copy,
    .copy_rows = copy_rows_in_stream,
    .cast = gpu::cast,
    .scale = gpu::scale,
    .sum = gpu::sum,
    .bias_grad = gpu::bias_grad,
    .norm = gpu::norm,
    .sum_norm = gpu::sum_norm,
    .norm_grad = gpu::norm_grad,
    .gelu = gpu::gelu,
    .gelu_grad = gpu::gelu_grad,
    .gated_activation = gpu::gated_activation,
    .gated_activation_grad = gpu::gated_activation_grad,
    .dropout = gpu::dropout,
    .dropout_grad = gpu::dropout_grad,
    .embedding = gpu::embedding,
    .embedding_grad = gpu::embedding_grad,
    .rotary = gpu::rotary,
    .attention = gpu::attention,
    .attention_grad = gpu::attention_grad,
    .cached_attention = gpu::cached_attention,
    .attention_scores = gpu::attention_scores,
    .attention_scores_grad = gpu::attention_scores_grad,
    .softmax = gpu::softmax,
    .softmax_grad = gpu::softmax_grad,
    .attention_mix = gpu::attention_mix,
    .attention_mix_grad = gpu::attention_mix_grad,
    .cross_entropy = gpu::cross_entropy,
    .logits_max = gpu::logits_max,
    .logits_sums = gpu::logits_sums,
    .divided_cross_entropy = gpu::divided_cross_entropy,
    .squares = gpu::squares,
    .first_non_finite = gpu::first_non_finite,
    .clip = gpu::clip,
    .update = gpu::update,
    .add_factor_sums = gpu::add_factor_sums,
    .update_factors = gpu::update_factors,
    .factor_scales = gpu::factor_scales,
    .add_update_squares = gpu::add_update_squares,
    .adafactor = gpu::adafactor,
    .workspace = {
        .norm_grad = gpu::norm_grad_bytes,
        .gelu_grad = gpu::gelu_grad_bytes,
        .bias_grad = gpu::bias_grad_bytes,
        .embedding_grad = [](int64_t, DType) { return int64_t{0}; },
        .rotary = gpu::rotary_bytes,
        .squares = gpu::squares_bytes,
        .first_non_finite = gpu::first_non_finite_bytes,
        .factor_sums = gpu::factor_sums_bytes,
        .cross_entropy = gpu::cross_entropy_bytes,
        .attention = [](View, View, int) { return int64_t{0}; },
        .attention_grad = gpu::attention_grad_bytes,
        .cached_attention = [](int64_t, int64_t, int) { return int64_t{0}; },
        .attention_parts = [](int64_t, int64_t, int) { return int64_t{0}; },
    }};

}  // namespace

const Kernels& gpu_kernels() { return kTable; }

}  // namespace tessera::kernels

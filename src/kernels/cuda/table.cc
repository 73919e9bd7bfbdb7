#include "kernels/cuda/table.h"

namespace tessera::kernels {
namespace {

constexpr Kernels kTable = {
    .clear = cuda::clear,
    .copy = cuda::copy,
    .copy_rows = copy_rows_in_stream,
    .cast = cuda::cast,
    .scale = cuda::scale,
    .sum = cuda::sum,
    .bias_grad = cuda::bias_grad,
    .norm = cuda::norm,
    .sum_norm = cuda::sum_norm,
    .norm_grad = cuda::norm_grad,
    .gelu = cuda::gelu,
    .gelu_grad = cuda::gelu_grad,
    .gated_activation = cuda::gated_activation,
    .gated_activation_grad = cuda::gated_activation_grad,
    .dropout = cuda::dropout,
    .dropout_grad = cuda::dropout_grad,
    .embedding = cuda::embedding,
    .embedding_grad = cuda::embedding_grad,
    .rotary = cuda::rotary,
    .attention = cuda::attention,
    .attention_grad = cuda::attention_grad,
    .cached_attention = cuda::cached_attention,
    .attention_scores = cuda::attention_scores,
    .attention_scores_grad = cuda::attention_scores_grad,
    .softmax = cuda::softmax,
    .softmax_grad = cuda::softmax_grad,
    .attention_mix = cuda::attention_mix,
    .attention_mix_grad = cuda::attention_mix_grad,
    .cross_entropy = cuda::cross_entropy,
    .logits_max = cuda::logits_max,
    .logits_sums = cuda::logits_sums,
    .divided_cross_entropy = cuda::divided_cross_entropy,
    .squares = cuda::squares,
    .first_non_finite = cuda::first_non_finite,
    .clip = cuda::clip,
    .update = cuda::update,
    .add_factor_sums = cuda::add_factor_sums,
    .update_factors = cuda::update_factors,
    .factor_scales = cuda::factor_scales,
    .add_update_squares = cuda::add_update_squares,
    .adafactor = cuda::adafactor,
    .workspace = {
        .norm_grad = cuda::norm_grad_bytes,
        .gelu_grad = cuda::gelu_grad_bytes,
        .bias_grad = cuda::bias_grad_bytes,
        .embedding_grad = [](int64_t, DType) { return int64_t{0}; },
        .rotary = cuda::rotary_bytes,
        .squares = cuda::squares_bytes,
        .first_non_finite = cuda::first_non_finite_bytes,
        .factor_sums = cuda::factor_sums_bytes,
        .cross_entropy = cuda::cross_entropy_bytes,
        .attention = [](View, View, int) { return int64_t{0}; },
        .attention_grad = cuda::attention_grad_bytes,
        .cached_attention = [](int64_t, int64_t, int) { return int64_t{0}; },
        .attention_parts = [](int64_t, int64_t, int) { return int64_t{0}; },
    }};

}  // namespace

const Kernels& cuda_kernels() { return kTable; }

}  // namespace tessera::kernels

#include "kernels/cuda/adafactor.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/step.h"
#include "kernels/cuda/views.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kFloat = sizeof(float), kDouble = sizeof(double);

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
        .norm_grad = [](int64_t n, int64_t d) { return cuda::norm_grad_partials(n, d) * kFloat; },
        .gelu_grad = [](int64_t n, int64_t d) { return cuda::column_partials(n, d) * kFloat; },
        .bias_grad = [](int64_t n, int64_t d) { return cuda::column_partials(n, d) * kFloat; },
        .embedding_grad = [](int64_t, DType) { return int64_t{0}; },
        .rotary = [](int64_t positions, const Rotary& r) { return positions * r.dims * kFloat; },
        .squares = [](int64_t n) { return cuda::squares_partials(n) * kDouble; },
        .first_non_finite = [](int64_t n) { return cuda::squares_partials(n) * kDouble; },
        .factor_sums = [](int64_t n,
                          int64_t factors) { return cuda::factor_partials(n, factors) * kDouble; },
        .cross_entropy = [](int64_t rows) { return rows * kDouble; },
        .attention = [](View, View, int) { return int64_t{0}; },
        .attention_grad = [](View qkv, View kv, int64_t buckets,
                             int) { return cuda::attention_grad_bytes(qkv, kv, buckets); },
        .cached_attention = [](int64_t, int64_t, int) { return int64_t{0}; },
        .attention_parts = [](int64_t, int64_t, int) { return int64_t{0}; },
    }};

}  // namespace

const Kernels& cuda_kernels() { return kTable; }

namespace cuda {

// Declared in launch.h, which only nvcc takes.
void check_launch(cudaError_t code, const char* kernel) {
  if (code == cudaSuccess) return;
  cudaGetLastError();
  throw Error("the device refused to start {}: {} ({}).", kernel, cudaGetErrorString(code),
              cudaGetErrorName(code));
}

}  // namespace cuda
}  // namespace tessera::kernels

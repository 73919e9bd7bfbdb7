// Row-wise ops, as a share of the memory bandwidth. Bytes are those that must be read and written
// once; 2,048 rows of 512 fit the last cache of many machines, so shares above 1 are possible.
#include "bench/kernels/limits.h"
#include "kernels/dropout.h"
#include "kernels/embedding.h"
#include "kernels/gated_activation.h"
#include "kernels/gelu.h"
#include "kernels/norm.h"
#include "kernels/rotary.h"
#include "kernels/sum.h"

namespace tessera::bench {
namespace {

// Rows of the residual stream and of the feed-forward layer of a model of 768 columns, and more
// rows than fit a cache.
constexpr int64_t kRows = 16384, kColumns = 768;
double bytes_of(int64_t tensors) { return static_cast<double>(tensors * kRows * kColumns * 4); }

void layer_norm(benchmark::State& state) {
  const Tensor x({kRows, kColumns}), y({kRows, kColumns}), gain({kColumns}), bias({kColumns});
  const Tensor stats({kRows, 2});
  measure(state, kernels::NormArgs{x, {.outputs = {{gain, bias, y}}, .stats = stats}});
  report_bytes(state, bytes_of(2));
}
BENCHMARK(layer_norm)->UseRealTime();

void rms_norm(benchmark::State& state) {
  const Tensor x({kRows, kColumns}), y({kRows, kColumns}), gain({kColumns}), stats({kRows, 2});
  const kernels::Norm norm = {
      .kind = kernels::NormKind::kRms, .outputs = {{gain, {}, y}}, .stats = stats};
  measure(state, kernels::NormArgs{x, norm});
  report_bytes(state, bytes_of(2));
}
BENCHMARK(rms_norm)->UseRealTime();

void sum_norm(benchmark::State& state) {
  const Tensor x({kRows, kColumns}), u({kRows, kColumns}), out({kRows, kColumns});
  const Tensor y({kRows, kColumns}), gain({kColumns}), bias({kColumns}), stats({kRows, 2});
  const kernels::Norm norm = {.outputs = {{gain, bias, y}}, .stats = stats};
  measure(state, kernels::SumNormArgs{{{x, u}, {bias}, out}, norm});
  report_bytes(state, bytes_of(4));
}
BENCHMARK(sum_norm)->UseRealTime();

void norm_grad(benchmark::State& state) {
  const Tensor x({kRows, kColumns}), dy({kRows, kColumns}), dx({kRows, kColumns});
  const Tensor gain({kColumns}), dgain({kColumns}), dbias({kColumns}), stats({kRows, 2});
  measure(state, kernels::NormGradArgs{kernels::NormKind::kLayer, x, stats, gain, dy, dx, false,
                                       dgain, dbias});
  report_bytes(state, bytes_of(3));
}
BENCHMARK(norm_grad)->UseRealTime();

template <kernels::GeluKind kind>
void gelu(benchmark::State& state) {
  const Tensor x({kRows, kColumns}), y({kRows, kColumns}), bias({kColumns});
  measure(state, kernels::GeluArgs{kind, x, bias, y});
  report_bytes(state, bytes_of(2));
}
BENCHMARK(gelu<kernels::GeluKind::kErf>)->UseRealTime();
BENCHMARK(gelu<kernels::GeluKind::kTanh>)->UseRealTime();

void gelu_grad(benchmark::State& state) {
  const Tensor x({kRows, kColumns}), dy({kRows, kColumns}), dx({kRows, kColumns});
  const Tensor bias({kColumns}), dbias({kColumns});
  measure(state, kernels::GeluGradArgs{kernels::GeluKind::kErf, x, bias, dy, dx, dbias});
  report_bytes(state, bytes_of(3));
}
BENCHMARK(gelu_grad)->UseRealTime();

void gated_activation(benchmark::State& state) {
  const Tensor x({kRows, kColumns, 2}), y({kRows, kColumns});
  measure(state, kernels::GatedActivationArgs{kernels::GateKind::kSilu, x, y});
  report_bytes(state, bytes_of(3));
}
BENCHMARK(gated_activation)->UseRealTime();

void gated_activation_grad(benchmark::State& state) {
  const Tensor x({kRows, kColumns, 2}), dx({kRows, kColumns, 2}), dy({kRows, kColumns});
  measure(state, kernels::GatedActivationGradArgs{kernels::GateKind::kSilu, x, dy, dx});
  report_bytes(state, bytes_of(5));
}
BENCHMARK(gated_activation_grad)->UseRealTime();

void bias_grad(benchmark::State& state) {
  const Tensor dy({kRows, kColumns}), dbias({kColumns});
  measure(state, kernels::BiasGradArgs{dy, dbias});
  report_bytes(state, bytes_of(1));
}
BENCHMARK(bias_grad)->UseRealTime();

void dropout(benchmark::State& state) {
  const Tensor x({8, kRows / 8, kColumns}), samples({8}, DType::kI64);
  measure(state, kernels::DropoutArgs{x, samples, {.probability = 0.1f, .key = 1}, x});
  report_bytes(state, bytes_of(2));
}
BENCHMARK(dropout)->UseRealTime();

// A quarter of 64 dimensions of q and k, as in the NeoX models, or all of them, as in LLaMA.
template <int64_t kDims>
void rotary(benchmark::State& state) {
  constexpr int64_t kTokens = 8192, kHeads = 8;
  const Tensor qkv({4, kTokens / 4, kHeads, 3, 64}), positions({4, kTokens / 4}, DType::kI32);
  measure(state, kernels::RotaryArgs{qkv, positions, {.dims = kDims}});
  report_bytes(state, 2.0 * kTokens * kHeads * 2 * kDims * 4);
}
BENCHMARK(rotary<16>)->UseRealTime();
BENCHMARK(rotary<64>)->UseRealTime();

void embedding_grad(benchmark::State& state) {
  const Tensor ids({kRows}, DType::kI32), dy({kRows, kColumns}), table({1024, kColumns});
  for (int64_t i = 0; i < kRows; ++i) {
    ids.view().as<int32_t>()[i] = static_cast<int32_t>(i * 7919 % 1024);
  }
  measure(state, kernels::EmbeddingGradArgs{ids, dy, table});
  report_bytes(state, bytes_of(1));
}
BENCHMARK(embedding_grad)->UseRealTime();

}  // namespace
}  // namespace tessera::bench

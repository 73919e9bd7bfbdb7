// Output biases of experts on the GPU (kernels/expert_bias.h): one thread per element of y and of
// the gradient of the biases, and one warp per pair of a token and a choice for that of the
// weights.
#include "kernels/expert_bias.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/reduce.h"
#include "kernels/gpu/views.h"

namespace tessera::kernels::gpu {
namespace {

constexpr int kThreads = 256, kPairsOfBlock = kThreads / kWarp;

struct BiasWork {
  const int32_t* choice = nullptr;
  const float* weights = nullptr;
  Numbers bias, y, dy;
  int64_t first = 0, experts = 0, hidden = 0, chosen = 0, pairs = 0;
  float* d_weights = nullptr;
  Numbers d_bias;

  // The row of the bias of a pair; -1 for an expert of another rank or a dropped pair.
  __device__ int64_t row(int64_t pair) const {
    const int64_t e = choice[pair] - first;
    return e >= 0 && e < experts ? e : -1;
  }
};

struct MixBiases {
  BiasWork a;
  __host__ __device__ int64_t count() const { return a.pairs / a.chosen * a.hidden; }
  __device__ void operator()(int64_t i) const {
    const int64_t t = i / a.hidden, c = i % a.hidden;
    float sum = 0;
    for (int64_t pair = t * a.chosen; pair < (t + 1) * a.chosen; ++pair)
      if (const int64_t e = a.row(pair); e >= 0)
        sum += a.weights[pair] * read(a.bias, e * a.hidden + c);
    write(a.y, i, sum);
  }
};

struct SumBiasGradients {
  BiasWork a;
  __host__ __device__ int64_t count() const { return a.experts * a.hidden; }
  __device__ void operator()(int64_t i) const {
    const int64_t e = i / a.hidden, c = i % a.hidden;
    float sum = 0;
    for (int64_t pair = 0; pair < a.pairs; ++pair)
      if (a.row(pair) == e) sum += a.weights[pair] * read(a.dy, pair / a.chosen * a.hidden + c);
    write(a.d_bias, i, read(a.d_bias, i) + sum);
  }
};

__global__ void bias_dots_kernel(const BiasWork a) {
  const int64_t pair = block_x() * kPairsOfBlock + warp_index();
  if (pair >= a.pairs) return;  // the whole warp
  const int64_t e = a.row(pair), t = pair / a.chosen;
  float sum = 0;
  for (int64_t c = lane_index(); e >= 0 && c < a.hidden; c += kWarp)
    sum += read(a.bias, e * a.hidden + c) * read(a.dy, t * a.hidden + c);
  sum = warp_sum(sum);
  if (lane_index() == 0) a.d_weights[pair] = sum;
}

// A is the forward or the gradient.
template <class A>
BiasWork work_of(const A& a) {
  BiasWork w;
  w.choice = a.choice.template as<int32_t>();
  w.weights = a.weights.f32();
  w.bias = numbers(a.bias);
  w.first = a.first;
  w.hidden = a.bias.shape[-1];
  w.experts = a.bias.elements() / w.hidden;
  w.chosen = a.choice.shape[-1];
  w.pairs = a.choice.elements();
  return w;
}

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const ExpertBiasArgs& a) {
  BiasWork w = work_of(a);
  w.y = numbers(a.y);
  launch_map("expert_bias", l.stream, MixBiases{w});
}

void launch(Gpu, const Launch& l, const ExpertBiasGradArgs& a) {
  BiasWork w = work_of(a);
  w.dy = numbers(a.dy);
  w.d_weights = a.d_weights.f32();
  w.d_bias = numbers(a.d_bias);
  launch("expert_bias_dots", bias_dots_kernel,
         {.x = blocks_for(w.pairs, kPairsOfBlock), .threads = kThreads}, l.stream, w);
  if (a.d_bias) launch_map("expert_bias_grad", l.stream, SumBiasGradients{w});
}

}  // namespace tessera::kernels

// The one-pass optimizers on the GPU (kernels/update.h): one memory-bound pass over the ranges of
// the arena, eight elements per thread. A launch has up to 32 ranges, one per blockIdx.y, because a
// model has many small ranges (biases, gains) that are too short for separate launches. The size of
// kernel arguments limits their number.
// Moments in 8 bits have a kernel of their own, in which a warp works on four blocks of them.
#include <algorithm>
#include <cmath>

#include "kernels/gpu/launch.h"
#include "kernels/gpu/moments.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/philox.h"
#include "kernels/gpu/reduce.h"
#include "kernels/gpu/views.h"
#include "kernels/update.h"

namespace tessera::kernels::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 132 * 16;

constexpr int kMostSpans = 32;  // per launch

struct UpdateWork {
  OptimizerKind rule = OptimizerKind::kAdamW;
  Numbers weights, m, v, gradient, weights_low;  // no data: none
  CodedMoments coded_m, coded_v;                 // in place of m and v
  bool stochastic = false;
  double beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0, rate_multiplier = 1;
  const double *learning_rate = nullptr, *step = nullptr, *scale = nullptr, *skip = nullptr;
  const double* share = nullptr;
  int spans = 0;
  UpdateRange span[kMostSpans];
};

// Constants that all elements share, computed once per block in double, as on the CPU.
struct Constants {
  float scale, learning_rate, step_size, epsilon, keep, share;
};

// The shared memory of the kernel for moments in 8 bits.
struct CodedShared {
  Constants constants;
  float m[256], v[256];  // values of the codes
};

__device__ Constants constants_of(const UpdateWork& a) {
  const double rate = *a.learning_rate * a.rate_multiplier, t = *a.step;
  const double root = sqrt(1 - pow(a.beta2, t));
  // schedule_free has no first moment whose bias it would correct.
  const double bias = a.rule == OptimizerKind::kScheduleFree ? 1 : 1 - pow(a.beta1, t);
  return {rounded(*a.scale),
          rounded(rate),
          rounded(root * rate / bias),
          rounded(root * a.epsilon),
          rounded(1 - rate * a.weight_decay),
          a.share != nullptr ? rounded(*a.share) : 0.0f};
}

// `low`: what GEMMs read, before it is rounded.
struct Element {
  float g, w, m, v, low = 0;
};

// The weights between z and x that GEMMs read with schedule_free.
__device__ float between(float z, float x, float beta1) { return fmaf(beta1, x - z, z); }

// The rules of kernels/update.h. AdamW's bias corrections are folded into step_size and epsilon, as
// on the CPU (cpu/update.cc), so both devices round in the same way.
__device__ void apply(const UpdateWork& a, const Constants& c, bool decay, Element& x) {
  const float keep = decay ? c.keep : 1.0f;
  if (a.rule == OptimizerKind::kAdamW) {
    x.m += rounded(1 - a.beta1) * (x.g - x.m);
    x.v = x.g * x.g * rounded(1 - a.beta2) + x.v * rounded(a.beta2);
    x.w = x.w * keep - c.step_size * (x.m / (sqrtf(x.v) + c.epsilon));
  } else if (a.rule == OptimizerKind::kLion) {
    const float mixed = x.m * rounded(a.beta1) + x.g * rounded(1 - a.beta1);
    const float sign = mixed == 0.0f ? 0.0f : copysignf(1.0f, mixed);
    x.m = x.m * rounded(a.beta2) + x.g * rounded(1 - a.beta2);
    x.w = x.w * keep - c.learning_rate * sign;
  } else if (a.rule == OptimizerKind::kScheduleFree) {
    const float beta1 = rounded(a.beta1), y = between(x.m, x.w, beta1);
    x.v = x.g * x.g * rounded(1 - a.beta2) + x.v * rounded(a.beta2);
    x.m -= c.step_size * (x.g / (sqrtf(x.v) + c.epsilon));
    x.m -= (decay ? c.learning_rate * rounded(a.weight_decay) : 0.0f) * y;
    x.w += c.share * (x.m - x.w);
    x.low = between(x.m, x.w, beta1);
    return;
  } else {
    const float g = (decay ? rounded(a.weight_decay) : 0.0f) * x.w + x.g;
    x.m = x.m * rounded(a.beta1) + g;  // without a moment, m was 0 and is now g
    x.w -= c.learning_rate * x.m;
  }
  x.low = x.w;
}

// Updates the moments and the weights of a group, and writes the weights.
__device__ void update_weights(const UpdateWork& a, const Constants& c, const UpdateRange& span,
                               int64_t i, int n, bool vector, float (&m)[kGroup],
                               float (&v)[kGroup]) {
  float g[kGroup], w[kGroup];
  read_group(a.gradient, i, n, vector, g);
  read_group(a.weights, i, n, vector, w);
  PhiloxWords words(span.key, static_cast<uint64_t>(*a.step));
  float low[kGroup];
  for (int k = 0; k < kGroup; ++k) {
    Element x = {g[k] * c.scale, w[k], m[k], v[k]};
    apply(a, c, span.decay, x);
    low[k] = x.low;
    if (a.stochastic) {
      const uint32_t r = words.of(span.element + (i - span.begin) + k);
      const uint32_t upper = r >> 16, lower = r & 0xffffu;
      x.w = stochastic(x.w, upper, a.weights.type);
      x.m = stochastic(x.m, lower, a.m.type);
      x.v = stochastic(x.v, upper ^ lower, a.v.type);
    }
    w[k] = x.w, m[k] = x.m, v[k] = x.v;
  }
  write_group(a.weights, i, n, vector, w);
  if (a.weights_low.data != nullptr) write_group(a.weights_low, i, n, vector, low);
}

__device__ void update_group(const UpdateWork& a, const Constants& c, const UpdateRange& span,
                             int64_t i, int n, bool vector) {
  float m[kGroup] = {}, v[kGroup] = {};
  if (a.m.data != nullptr) read_group(a.m, i, n, vector, m);
  if (a.v.data != nullptr) read_group(a.v, i, n, vector, v);
  update_weights(a, c, span, i, n, vector, m, v);
  if (a.m.data != nullptr) write_group(a.m, i, n, vector, m);
  if (a.v.data != nullptr) write_group(a.v, i, n, vector, v);
}

__global__ void update_kernel(const UpdateWork a) {
  if (*a.skip != 0) return;  // the same for all threads
  const UpdateRange& span = a.span[blockIdx.y];
  // The grid has enough blocks for the longest range; unneeded blocks of shorter ranges return.
  if (span.begin + block_x() * kThreads * kGroup >= span.end) return;
  auto* const shared = reinterpret_cast<Constants*>(shared_floats());
  if (threadIdx.x == 0) *shared = constants_of(a);
  __syncthreads();
  const Constants c = *shared;
  // A range may begin anywhere in the buffer; only multiples of eight elements allow 16-byte
  // accesses.
  const bool vector = span.begin % kGroup == 0;  // buffers are aligned
  const int64_t step = threads_of_grid() * kGroup;
  for (int64_t i = span.begin + thread_of_grid() * kGroup; i < span.end; i += step)
    update_group(a, c, span, i, group_size(span.end - i), vector);
}

// Spans begin with a block of moments. All lanes of a warp repeat the loop equally often, because
// they exchange the scales of blocks.
__global__ void update_coded_kernel(const UpdateWork a) {
  if (*a.skip != 0) return;  // the same for all threads
  const UpdateRange& span = a.span[blockIdx.y];
  if (span.begin + block_x() * kThreads * kGroup >= span.end) return;
  auto* const shared = reinterpret_cast<CodedShared*>(shared_floats());
  if (threadIdx.x == 0) shared->constants = constants_of(a);
  for (int k = thread_of_block(); k < 256; k += kThreads) {
    shared->m[k] = kSignedTable.values[k];
    shared->v[k] = kUnsignedTable.values[k];
  }
  __syncthreads();
  const Constants c = shared->constants;
  const int64_t step = threads_of_grid() * kGroup, lane = thread_of_block() % kWarp * kGroup;
  for (int64_t i = span.begin + thread_of_grid() * kGroup; i - lane < span.end; i += step) {
    const int n = group_size(span.end - i);
    float m[kGroup] = {}, v[kGroup] = {};
    if (a.coded_m.codes != nullptr) read_moments(a.coded_m, shared->m, i, n, m);
    if (a.coded_v.codes != nullptr) read_moments(a.coded_v, shared->v, i, n, v);
    update_weights(a, c, span, i, n, true, m, v);
    if (a.coded_m.codes != nullptr) write_moments<true>(a.coded_m, i, n, m);
    if (a.coded_v.codes != nullptr) write_moments<false>(a.coded_v, i, n, v);
  }
}

struct AverageWork {
  float rate;
  Numbers weights;
  const double* skip;
  float* average;
  int64_t n;
  __host__ __device__ int64_t count() const { return n; }
  __device__ void operator()(int64_t i) const {
    if (*skip != 0) return;
    average[i] += rate * (read(weights, i) - average[i]);
  }
};

void launch_update(const UpdateWork& a, Stream s) {
  int64_t longest = 0;
  for (int i = 0; i < a.spans; ++i) {
    const int64_t n = a.span[i].end - a.span[i].begin;
    longest = n > longest ? n : longest;
  }
  const int64_t blocks = blocks_for(longest, kThreads * kGroup);
  const bool coded = a.coded_m.codes != nullptr || a.coded_v.codes != nullptr;
  launch("update", coded ? update_coded_kernel : update_kernel,
         {.x = blocks < kMostBlocks ? blocks : kMostBlocks,
          .y = a.spans,
          .threads = kThreads,
          .shared_bytes = coded ? sizeof(CodedShared) : sizeof(Constants)},
         s, a);
}

bool is_coded(View moments) { return moments && moments.dtype == DType::kU8; }

CodedMoments coded(View moments, View scales) {
  if (!is_coded(moments)) return {};
  require(scales.elements() == (moments.elements() + kMomentBlock - 1) / kMomentBlock,
          "moments in 8 bits without a scale per block");
  return {moments.as<uint8_t>(), scales.as<float>()};
}

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const UpdateArgs& args) {
  const Update& u = args.update;
  const UpdateNumbers& n = args.numbers;
  UpdateWork a;
  a.rule = args.rule;
  a.weights = numbers(u.weights);
  if (!is_coded(u.m)) a.m = numbers(u.m);
  if (!is_coded(u.v)) a.v = numbers(u.v);
  a.coded_m = coded(u.m, u.m_scales);
  a.coded_v = coded(u.v, u.v_scales);
  a.gradient = numbers(u.gradient);
  a.weights_low = numbers(u.weights_low);
  a.stochastic = u.stochastic;
  a.beta1 = args.constants.beta1;
  a.beta2 = args.constants.beta2;
  a.epsilon = args.constants.epsilon;
  a.weight_decay = args.constants.weight_decay;
  a.rate_multiplier = args.constants.rate_multiplier;
  a.learning_rate = n.learning_rate;
  a.step = n.step;
  a.scale = n.scale;
  a.skip = n.skip;
  a.share = n.share;
  for (const Numbers& x : {a.weights, a.m, a.v, a.gradient, a.weights_low})
    require(aligned(x.data), "the weights are not aligned");
  for (const CodedMoments& x : {a.coded_m, a.coded_v})
    require(aligned(x.codes), "the moments are not aligned");
  if (a.coded_m.codes != nullptr || a.coded_v.codes != nullptr)
    for (const UpdateRange& r : u.ranges)
      require(r.begin % kMomentBlock == 0, "a range begins within a block of moments");
  for (size_t first = 0; first < u.ranges.size(); first += kMostSpans) {
    a.spans = 0;
    while (a.spans < kMostSpans && first + a.spans < u.ranges.size()) {
      a.span[a.spans] = u.ranges[first + a.spans];
      ++a.spans;
    }
    launch_update(a, l.stream);
  }
}

void launch(Gpu, const Launch& l, const WeightAverageArgs& a) {
  launch_map(
      "weight_average", l.stream,
      AverageWork{a.rate, numbers(a.weights), a.skip, a.average.as<float>(), a.average.elements()});
}

}  // namespace tessera::kernels

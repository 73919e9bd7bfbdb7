// Muon's passes on the GPU (kernels/muon.h): the directions of this rank's ranges, the division of
// a matrix by its norm, and the update. All are memory-bound, with eight elements per thread. A
// launch has up to 32 ranges of a part, one per blockIdx.y, because a rank's shard of a packed
// weight consists of many short ranges.
#include <cmath>

#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/philox.h"
#include "kernels/gpu/views.h"
#include "kernels/muon.h"

namespace tessera::kernels::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 132 * 16;
constexpr int kMostSpans = 32;  // per launch

// The arguments of the directions and of the update, which share the ranges and the moment.
struct MuonWork {
  Numbers gradient, m, directions;
  Numbers weights, weights_low;  // no data: none
  int64_t first = 0;             // index in the part of the first of `directions`
  bool nesterov = false, stochastic = false;
  double momentum = 0, weight_decay = 0, rate_multiplier = 1, direction_scale = 1;
  RowClip clip;
  const double *learning_rate = nullptr, *step = nullptr, *scale = nullptr, *skip = nullptr;
  int spans = 0;
  UpdateRange span[kMostSpans];
};

// Constants that all elements share, computed once per block in double, as on the CPU.
struct Constants {
  float scale, momentum, rest, rate, keep;
};

__device__ Constants constants_of(const MuonWork& a) {
  const double rate = a.learning_rate == nullptr ? 0.0 : *a.learning_rate * a.rate_multiplier;
  return {rounded(*a.scale), rounded(a.momentum), rounded(1 - a.momentum),
          rounded(rate * a.direction_scale), rounded(1 - rate * a.weight_decay)};
}

// u = momentum m' + (1 - momentum) g with the new moment m', or m' itself.
__device__ void direct_group(const MuonWork& a, const Constants& c, const UpdateRange& span,
                             int64_t i, int n, bool vector) {
  float g[kGroup], m[kGroup];
  read_group(a.gradient, i, n, vector, g);
  read_group(a.m, i, n, vector, m);
  for (int k = 0; k < kGroup; ++k) {
    const float rest = g[k] * c.scale * c.rest;
    const float moment = c.momentum * m[k] + rest;
    m[k] = a.nesterov ? c.momentum * moment + rest : moment;
  }
  write_group(a.directions, span.element - a.first + (i - span.begin), n, false, m);
}

// Returns the factor of the row of an element of the part.
__device__ float factor_of_row(const RowClip& clip, int64_t element) {
  const int64_t row = element / clip.columns, head = row / clip.rows, own = row % clip.rows;
  for (int k = 0; k < clip.count; ++k) {
    const RowClip::Range& r = clip.ranges[k];
    if (own < r.first || own >= r.last) continue;
    const float score = clip.scores[head];
    return score > clip.limit ? rounded(pow(clip.limit / score, r.share)) : 1.0f;
  }
  return 1.0f;
}

__device__ void update_group(const MuonWork& a, const Constants& c, const UpdateRange& span,
                             int64_t i, int n, bool vector) {
  float g[kGroup], w[kGroup], m[kGroup], u[kGroup], low[kGroup];
  read_group(a.gradient, i, n, vector, g);
  read_group(a.weights, i, n, vector, w);
  read_group(a.m, i, n, vector, m);
  read_group(a.directions, span.element - a.first + (i - span.begin), n, false, u);
  PhiloxWords words(span.key, static_cast<uint64_t>(*a.step));
  const float keep = span.decay ? c.keep : 1.0f;
  for (int k = 0; k < kGroup; ++k) {
    m[k] = c.momentum * m[k] + g[k] * c.scale * c.rest;
    w[k] = w[k] * keep - c.rate * u[k];
    if (a.clip.scores != nullptr)
      w[k] *= factor_of_row(a.clip, span.element + (i - span.begin) + k);
    low[k] = w[k];
    if (!a.stochastic) continue;
    const uint32_t r = words.of(span.element + (i - span.begin) + k);
    w[k] = stochastic(w[k], r >> 16, a.weights.type);
    m[k] = stochastic(m[k], r & 0xffffu, a.m.type);
  }
  write_group(a.weights, i, n, vector, w);
  write_group(a.m, i, n, vector, m);
  if (a.weights_low.data != nullptr) write_group(a.weights_low, i, n, vector, low);
}

template <bool kUpdates>
__global__ void muon_kernel(const MuonWork a) {
  if (a.skip != nullptr && *a.skip != 0) return;  // the same for all threads
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
  for (int64_t i = span.begin + thread_of_grid() * kGroup; i < span.end; i += step) {
    if constexpr (kUpdates)
      update_group(a, c, span, i, group_size(span.end - i), vector);
    else
      direct_group(a, c, span, i, group_size(span.end - i), vector);
  }
}

// Launches the kernel for all ranges.
template <bool kUpdates>
void launch_muon(const char* name, MuonWork a, std::span<const UpdateRange> ranges, Stream s) {
  for (const Numbers& x : {a.weights, a.m, a.gradient, a.weights_low})
    require(aligned(x.data), "the weights are not aligned");
  for (size_t first = 0; first < ranges.size(); first += kMostSpans) {
    int64_t longest = 0;
    a.spans = 0;
    while (a.spans < kMostSpans && first + a.spans < ranges.size()) {
      const UpdateRange& r = ranges[first + a.spans];
      longest = r.end - r.begin > longest ? r.end - r.begin : longest;
      a.span[a.spans++] = r;
    }
    const int64_t blocks = blocks_for(longest, kThreads * kGroup);
    launch(name, muon_kernel<kUpdates>,
           {.x = blocks < kMostBlocks ? blocks : kMostBlocks,
            .y = a.spans,
            .threads = kThreads,
            .shared_bytes = sizeof(Constants)},
           s, a);
  }
}

struct UnitNorm {
  Groups groups;
  Numbers x, y;
  const double* squares = nullptr;
  double epsilon = 0;

  __host__ __device__ int64_t count() const { return groups.count(); }
  __device__ void operator()(int64_t i) const {
    const float factor = rounded(1 / fmax(sqrt(*squares), epsilon));
    const Groups::Cursor p = groups.cursor(i);
    float v[kGroup];
    read_group(x, p.at, p.n, groups.vector, v);
    for (float& each : v) each *= factor;
    write_group(y, p.at, p.n, groups.vector, v);
  }
};

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const DirectionArgs& args) {
  MuonWork a;
  a.gradient = numbers(args.gradient);
  a.m = numbers(args.moment);
  a.directions = numbers(args.directions);
  a.first = args.first;
  a.nesterov = args.nesterov;
  a.momentum = args.momentum;
  a.scale = args.scale;
  launch_muon<false>("muon_direction", a, args.ranges, l.stream);
}

void launch(Gpu, const Launch& l, const UnitNormArgs& a) {
  const Groups groups = groups_of(1, a.y.elements(), a.x, a.y);
  launch_map("unit_norm", l.stream,
             UnitNorm{groups, numbers(a.x), numbers(a.y), a.squares, a.epsilon});
}

void launch(Gpu, const Launch& l, const MuonArgs& args) {
  const Update& u = args.update;
  const UpdateNumbers& n = args.numbers;
  MuonWork a;
  a.gradient = numbers(u.gradient);
  a.m = numbers(u.m);
  a.directions = numbers(args.directions);
  a.weights = numbers(u.weights);
  a.weights_low = numbers(u.weights_low);
  a.first = args.first;
  a.stochastic = u.stochastic;
  a.momentum = args.constants.beta1;
  a.weight_decay = args.constants.weight_decay;
  a.rate_multiplier = args.constants.rate_multiplier;
  a.direction_scale = args.direction_scale;
  a.clip = args.clip;
  a.learning_rate = n.learning_rate;
  a.step = n.step;
  a.scale = n.scale;
  a.skip = n.skip;
  launch_muon<true>("muon", a, u.ranges, l.stream);
}

}  // namespace tessera::kernels

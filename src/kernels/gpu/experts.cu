// The experts on the GPU. Tiles are processed in waves, so that the buffers of rows have a fixed
// size; the number of waves follows from the maximum number of tiles. Element-wise kernels over the
// rows of a wave run between its GEMMs. The rows of a token in a wave are added by ascending
// expert. Workspace:
//
//   [ counts | begin | of_tile | rows | row_of | sums f32 [N, H] | wave: pairs, h, dh, out f32 ]
#include <cstddef>

#include "kernels/gpu/experts.h"
#include "kernels/gpu/gate.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/reduce.h"
#include "kernels/gpu_experts.h"
#include "tensor/gpu.h"

namespace tessera::kernels::gpu {
namespace {

constexpr int64_t kAlign = 256;
constexpr int64_t kMostWaveBytes = 256ll << 20;
constexpr int kThreads = 256;

// The rows of a wave that the kernels between the GEMMs read and write.
struct WaveRows {
  Wave wave;
  GateKind gate = GateKind::kSilu;
  int64_t tokens = 0, hidden = 0, inner = 0;
  const float* weights = nullptr;
  Numbers pairs, h, dh, saved;  // saved: [N, K, I, 2], or none
  Numbers up_bias;              // [E, I, 2], or none
  const float* out = nullptr;
  float *sums = nullptr, *d_weights = nullptr;

  __host__ __device__ int64_t rows() const { return wave.count * kTileRows; }
  __device__ int32_t pair(int64_t row) const {
    const int64_t at = wave.first_tile * kTileRows + row;
    return at < wave.tiles.bound * kTileRows ? wave.tiles.rows[at] : -1;
  }
  __device__ int64_t expert(int64_t row) const {
    return wave.tiles.of_tile[wave.first_tile + row / kTileRows];
  }
};

// Adds the bias to new pairs, copies them to the saved pairs (`save`) or from them (`load`), and
// applies the activation.
struct Activate {
  WaveRows a;
  bool save, load;
  __host__ __device__ int64_t count() const { return a.rows() * a.inner; }
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / a.inner;
    const int32_t pair = a.pair(row);
    if (pair < 0) return;
    const int64_t at = 2 * (pair * a.inner + i % a.inner);
    for (int k = 0; load && k < 2; ++k) write(a.pairs, 2 * i + k, read(a.saved, at + k));
    if (!load && a.up_bias.data != nullptr) {
      const int64_t bias = 2 * (a.expert(row) * a.inner + i % a.inner);
      for (int k = 0; k < 2; ++k)
        write(a.pairs, 2 * i + k, read(a.pairs, 2 * i + k) + read(a.up_bias, bias + k));
    }
    for (int k = 0; save && k < 2; ++k) write(a.saved, at + k, read(a.pairs, 2 * i + k));
    write(a.h, i, gated(a.gate, read(a.pairs, 2 * i), read(a.pairs, 2 * i + 1)).y);
  }
};

// One block per row: dw = <dh, h>; h and dh are then multiplied by w, and the gradient of the pairs
// is computed.
__global__ void activation_grad_kernel(const WaveRows a) {
  const int64_t row = blockIdx.x;
  const int32_t pair = a.pair(row);
  if (pair < 0) return;  // the whole block
  const float w = a.weights[pair];
  float dot[1] = {0};
  for (int64_t i = row * a.inner + threadIdx.x; i < (row + 1) * a.inner; i += kThreads) {
    const float h = read(a.h, i), dh = read(a.dh, i);
    dot[0] += h * dh;
    write(a.h, i, w * h);
    const GatedValue g = gated(a.gate, read(a.pairs, 2 * i), read(a.pairs, 2 * i + 1));
    const float d = as_stored(w * dh, a.dh.type);
    write(a.pairs, 2 * i, d * g.by_gate);
    write(a.pairs, 2 * i + 1, d * g.by_value);
  }
  block_sums(dot, shared_floats());
  if (threadIdx.x == 0) a.d_weights[pair] = dot[0];
}

// sums[t] += Σ out over the choices of token t in this wave, times their weights if `weighted`.
struct AddRows {
  WaveRows a;
  bool weighted;
  __host__ __device__ int64_t count() const { return a.tokens * a.hidden; }
  __device__ void operator()(int64_t i) const {
    const int64_t token = i / a.hidden, first = a.wave.first_tile * kTileRows;
    float sum = a.sums[i];
    for (int64_t j = token * a.wave.tiles.chosen; j < (token + 1) * a.wave.tiles.chosen; ++j) {
      const int64_t row = a.wave.tiles.row_of[j] - first;
      if (a.wave.tiles.row_of[j] < 0 || row < 0 || row >= a.rows()) continue;
      sum += (weighted ? a.weights[j] : 1.0f) * a.out[row * a.hidden + i % a.hidden];
    }
    a.sums[i] = sum;
  }
};

// d_bias[e, c] += Σ over the rows of expert e in this wave of the gradient of pair column c, in the
// order of rows.
struct AddToBias {
  WaveRows a;
  Numbers d_bias;  // [E, I, 2]
  __host__ __device__ int64_t count() const { return a.wave.tiles.experts * 2 * a.inner; }
  __device__ void operator()(int64_t i) const {
    const int64_t expert = i / (2 * a.inner), first = a.wave.first_tile;
    int64_t tile = a.wave.tiles.begin[expert], end = a.wave.tiles.begin[expert + 1];
    tile = tile > first ? tile : first;
    end = end < first + a.wave.count ? end : first + a.wave.count;
    if (tile >= end) return;
    float sum = 0;
    for (int64_t row = (tile - first) * kTileRows; row < (end - first) * kTileRows; ++row)
      if (a.pair(row) >= 0) sum += read(a.pairs, row * 2 * a.inner + i % (2 * a.inner));
    write(d_bias, i, read(d_bias, i) + sum);
  }
};

// Zeroes the saved pairs that were dropped.
struct ClearDropped {
  const int32_t* choice;
  Numbers saved;  // [pairs, columns]
  int64_t pairs, columns;
  __host__ __device__ int64_t count() const { return pairs; }
  __device__ void operator()(int64_t i) const {
    for (int64_t c = 0; choice[i] < 0 && c < columns; ++c) write(saved, i * columns + c, 0);
  }
};

struct Round {
  const float* from;
  Numbers to;
  int64_t n;
  __host__ __device__ int64_t count() const { return n; }
  __device__ void operator()(int64_t i) const { write(to, i, from[i]); }
};

int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// The regions of the workspace from `base`; with nullptr, only their sizes are used.
struct Workspace {
  Tiles tiles;
  int64_t wave_tiles = 0;
  float *sums = nullptr, *out = nullptr;
  Numbers pairs, h, dh;
  int64_t bytes = 0;

  Workspace(const ExpertsShape& s, std::byte* base) {
    const auto region = [&]<class T>(T*& at, int64_t size) {
      at = reinterpret_cast<T*>(base + bytes);
      bytes += aligned(size);
    };
    const auto number = static_cast<int64_t>(sizeof(int32_t)), f32 = size_of(DType::kF32);
    tiles.pairs = s.tokens * s.chosen;
    tiles.chosen = s.chosen;
    tiles.experts = s.experts;
    tiles.bound = most_tiles(tiles.pairs, s.experts);
    region(tiles.counts, s.experts * number);
    region(tiles.begin, (s.experts + 1) * number);
    region(tiles.of_tile, tiles.bound * number);
    region(tiles.rows, tiles.bound * kTileRows * number);
    region(tiles.row_of, tiles.pairs * number);
    region(sums, s.dtype == DType::kF32 ? 0 : s.tokens * s.hidden * f32);
    const int64_t half = size_of(s.dtype);
    const int64_t row = s.inner * half * (s.gradient ? 4 : 3) + s.hidden * f32;
    wave_tiles = kMostWaveBytes / (row * kTileRows);
    wave_tiles = wave_tiles < 1 ? 1 : (wave_tiles < tiles.bound ? wave_tiles : tiles.bound);
    const int64_t rows = wave_tiles * kTileRows;
    const auto numbers = [&](Numbers& n, int64_t columns) {
      std::byte* at = nullptr;
      region(at, rows * columns * half);
      n = {at, s.dtype};
    };
    numbers(pairs, 2 * s.inner);
    numbers(h, s.inner);
    numbers(dh, s.gradient ? s.inner : 0);
    region(out, rows * s.hidden * f32);
  }
};

// Enqueues the kernels of one wave.
struct Run {
  const ExpertsShape& s;
  const ExpertsOperands& o;
  Stream stream;

  Numbers of(const void* p) const { return {const_cast<void*>(p), s.dtype}; }
  Numbers sum(void* p) const { return {p, s.sums}; }

  void activations(const WaveRows& r) const {
    const bool load = s.gradient && s.pairs;
    if (!load)
      launch_row_product({r.wave, of(o.x), of(o.up), r.pairs, true, true, 2 * s.inner, s.hidden},
                         stream);
    launch_map("experts_gate", stream, Activate{r, s.pairs && !load, load});
  }
  void forward(const WaveRows& r, float* out) const {
    activations(r);
    launch_row_product(
        {r.wave, r.h, of(o.down), {out, DType::kF32}, false, true, s.hidden, s.inner}, stream);
    launch_map("experts_add", stream, AddRows{r, true});
  }
  void gradient(const WaveRows& r, float* out) const {
    activations(r);
    launch_row_product({r.wave, of(o.dy), of(o.down), r.dh, true, false, s.inner, s.hidden},
                       stream);
    launch("experts_gate_grad", activation_grad_kernel,
           {.x = r.rows(), .threads = kThreads, .shared_bytes = kWarp * sizeof(float)}, stream, r);
    if (o.d_down != nullptr)
      launch_expert_product({r.wave, of(o.dy), r.h, sum(o.d_down), true, false, s.hidden, s.inner},
                            stream);
    if (o.d_up_bias != nullptr) launch_map("experts_bias", stream, AddToBias{r, sum(o.d_up_bias)});
    if (o.d_up != nullptr)
      launch_expert_product(
          {r.wave, r.pairs, of(o.x), sum(o.d_up), false, true, 2 * s.inner, s.hidden}, stream);
    launch_row_product(
        {r.wave, r.pairs, of(o.up), {out, DType::kF32}, false, false, s.hidden, 2 * s.inner},
        stream);
    launch_map("experts_add", stream, AddRows{r, false});
  }
};

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

int64_t GpuExperts::workspace_bytes() const { return Workspace(shape_, nullptr).bytes; }

void GpuExperts::run(const Launch& l, const ExpertsOperands& o) const {
  const ExpertsShape& s = shape_;
  Workspace w(s, static_cast<std::byte*>(l.workspace));
  w.tiles.choice = o.choice;
  w.tiles.first = o.first;
  launch_tiles(w.tiles, l.stream);
  void* const result = s.gradient ? o.dx : o.y;
  const bool rounds = s.dtype != DType::kF32;
  WaveRows r;
  r.gate = s.gate;
  r.tokens = s.tokens;
  r.hidden = s.hidden;
  r.inner = s.inner;
  r.weights = o.weights;
  r.pairs = w.pairs;
  r.h = w.h;
  r.dh = w.dh;
  r.saved = {o.pairs, s.dtype};
  r.up_bias = {const_cast<void*>(o.up_bias), s.dtype};
  r.out = w.out;
  r.sums = rounds ? w.sums : static_cast<float*>(result);
  r.d_weights = o.d_weights;
  const auto clear = [&](void* data, int64_t bytes) { fill_in_stream(l.stream, data, 0, bytes); };
  clear(r.sums, s.tokens * s.hidden * size_of(DType::kF32));
  const int64_t matrix = s.experts * s.inner * s.hidden * size_of(s.sums);
  if (s.gradient) clear(o.d_weights, w.tiles.pairs * size_of(DType::kF32));
  if (o.fresh_up) clear(o.d_up, 2 * matrix);
  if (o.fresh_down) clear(o.d_down, matrix);
  if (o.fresh_up_bias) clear(o.d_up_bias, s.experts * 2 * s.inner * size_of(s.sums));
  if (s.pairs && !s.gradient)
    launch_map("experts_dropped", l.stream,
               ClearDropped{o.choice, r.saved, w.tiles.pairs, 2 * s.inner});
  const Run run = {s, o, l.stream};
  for (int64_t tile = 0; tile < w.tiles.bound; tile += w.wave_tiles) {
    const int64_t left = w.tiles.bound - tile;
    r.wave = {w.tiles, tile, left < w.wave_tiles ? left : w.wave_tiles};
    if (s.gradient)
      run.gradient(r, w.out);
    else
      run.forward(r, w.out);
  }
  if (rounds)
    launch_map("experts_round", l.stream, Round{r.sums, {result, s.dtype}, s.tokens * s.hidden});
}

}  // namespace tessera::kernels

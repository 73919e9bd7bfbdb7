// Rotation of queries and keys by their positions (kernels/rotary.h), in two kernels: cosines and
// sines once per token and pair, then the rotation, eight pairs per thread. The angle is rounded to
// f32 as in the Hugging Face models; its cosine and sine are computed in f64, as on the CPU.
// Frequencies come from the host, so both devices use the same ones.
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/views.h"
#include "kernels/rotary.h"

namespace tessera::kernels::gpu {
namespace {

constexpr int kMostRotaryPairs = 128;  // dims / 2

struct RotaryWork {
  Numbers qkv;  // [tokens, groups, slots, d]; all slots but the last are rotated
  const int32_t* positions = nullptr;
  int64_t tokens = 0, groups = 0, slots = 0, d = 0, half = 0;
  bool inverse = false, vector = false;
  float magnitude = 1;
  float* table = nullptr;  // [tokens, 2, half]: cosines, sines
  float frequency[kMostRotaryPairs] = {};
};

struct FillAngles {
  RotaryWork a;
  __host__ __device__ int64_t count() const { return a.tokens * a.half; }
  __device__ void operator()(int64_t i) const {
    const int64_t n = i / a.half, k = i % a.half;
    const float angle = static_cast<float>(a.positions[n]) * a.frequency[k];
    const double exact = angle, sine = sin(exact);
    float* const row = a.table + n * 2 * a.half + k;
    row[0] = a.magnitude * static_cast<float>(cos(exact));
    row[a.half] = a.magnitude * static_cast<float>(a.inverse ? -sine : sine);
  }
};

// Rotates eight pairs (i, i + half) of one slot, all but the last (the value) of each group:
//
//   slot:  | x0 … x(half-1) | y0 … y(half-1) | dims from R on, unchanged |
//   x' = x cos - y sin,   y' = y cos + x sin
struct Turn {
  RotaryWork a;
  __host__ __device__ int64_t per_slot() const { return (a.half + kGroup - 1) / kGroup; }
  __host__ __device__ int64_t count() const {
    return a.tokens * a.groups * (a.slots - 1) * per_slot();
  }
  __device__ void operator()(int64_t i) const {
    const int64_t k = i % per_slot() * kGroup, turned = i / per_slot();
    const int64_t slot = turned % (a.slots - 1),
                  group = turned / (a.slots - 1);  // index over all tokens
    const int64_t token = group / a.groups, at = (group * a.slots + slot) * a.d + k;
    const int n = a.half - k < kGroup ? static_cast<int>(a.half - k) : kGroup;
    float x[kGroup], y[kGroup], cosine[kGroup], sine[kGroup];
    const Numbers table = {a.table, DType::kF32};
    read_group(a.qkv, at, n, a.vector, x);
    read_group(a.qkv, at + a.half, n, a.vector, y);
    read_group(table, token * 2 * a.half + k, n, a.vector, cosine);
    read_group(table, token * 2 * a.half + a.half + k, n, a.vector, sine);
    for (int j = 0; j < kGroup; ++j) {
      const float turned_x = x[j] * cosine[j] - y[j] * sine[j];
      y[j] = y[j] * cosine[j] + x[j] * sine[j];
      x[j] = turned_x;
    }
    write_group(a.qkv, at, n, a.vector, x);
    write_group(a.qkv, at + a.half, n, a.vector, y);
  }
};

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

int64_t workspace_bytes(Gpu, const RotaryArgs& a, int) {
  return a.positions.elements() * a.how.dims * static_cast<int64_t>(sizeof(float));
}

void launch(Gpu, const Launch& l, const RotaryArgs& args) {
  View qkv = args.qkv;
  const Rotary& r = args.how;
  require(qkv.shape.rank() == 5 && r.dims % 2 == 0 && r.dims <= 2 * kMostRotaryPairs,
          "rotary needs [B, T, KV, slots, D] and an even number of dims, at most 256");
  RotaryWork a;
  a.qkv = numbers(qkv);
  a.positions = args.positions.as<int32_t>();
  a.tokens = qkv.shape[0] * qkv.shape[1];
  a.groups = qkv.shape[2];
  a.slots = qkv.shape[3];
  a.d = qkv.shape[4];
  a.half = r.dims / 2;
  a.inverse = r.inverse;
  a.magnitude = r.magnitude;
  a.vector = a.d % kGroup == 0 && a.half % kGroup == 0 && aligned(qkv.data) && aligned(l.workspace);
  a.table = static_cast<float*>(l.workspace);
  for (int64_t i = 0; i < a.half; ++i) a.frequency[i] = rotary_frequency(r, i);
  launch_map("rotary_angles", l.stream, FillAngles{a});
  launch_map("rotary", l.stream, Turn{a});
}

}  // namespace tessera::kernels

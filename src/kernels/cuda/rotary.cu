#include "kernels/cuda/launch.h"
#include "kernels/cuda/numbers.h"
#include "kernels/cuda/tokens.h"

namespace tessera::kernels::cuda {
namespace {

struct FillAngles {
  RotaryWork a;
  __host__ __device__ int64_t count() const { return a.tokens * a.half; }
  __device__ void operator()(int64_t i) const {
    const int64_t n = i / a.half, k = i % a.half;
    const float angle = static_cast<float>(a.positions[n]) * a.frequency[k];
    const double exact = angle, sine = sin(exact);
    a.table[n * 2 * a.half + k] = static_cast<float>(cos(exact));
    a.table[n * 2 * a.half + a.half + k] = static_cast<float>(a.inverse ? -sine : sine);
  }
};

struct Turn {
  RotaryWork a;
  __host__ __device__ int64_t per_slot() const { return (a.half + kGroup - 1) / kGroup; }
  __host__ __device__ int64_t count() const {
    return a.tokens * a.groups * (a.slots - 1) * per_slot();
  }
  __device__ void operator()(int64_t i) const {
    const int64_t k = i % per_slot() * kGroup, turned = i / per_slot();
    const int64_t slot = turned % (a.slots - 1), group = turned / (a.slots - 1);  // of all tokens
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

void launch_rotary(const RotaryWork& a, Stream s) {
  launch_map("rotary_angles", s, FillAngles{a});
  launch_map("rotary", s, Turn{a});
}

}  // namespace tessera::kernels::cuda

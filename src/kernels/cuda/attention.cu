#include "kernels/cuda/attention_tiles.h"

namespace tessera::kernels::cuda {
namespace {

// A block has 16 queries of a head.
template <int kPer>
__global__ void attention_kernel(const AttentionWork a) {
  const int64_t b = blockIdx.z, head = blockIdx.y, kv = head / a.g, g = head % a.g;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kOwn;
  float* const memory = shared_floats();
  const SharedRows own = {memory, a.d}, k_tile = {memory + kOwn * a.d, a.d + 1},
                   v_tile = {k_tile.data + kTile * (a.d + 1), a.d + 1};
  load_rows(a.q, a.q_at.at(b, 0, kv, g), a.q_at.row, first, a.t, kOwn, a.d, a.scale, own);
  const int64_t start = a.start == nullptr ? 0 : *a.start;
  const int64_t keys = a.start == nullptr ? a.s : start + a.t;
  const int64_t last = start + first + kOwn;
  const int64_t end = a.causal && last < keys ? last : keys;
  const uint64_t key = a.drop > 0 ? value_of(a.mask) : 0;
  const int64_t place = a.k_at.at(b, 0, kv, 0);
  float most[kOwnOfWarp], total[kOwnOfWarp] = {}, sum[kOwnOfWarp][kPer] = {};
  for (float& x : most) x = -INFINITY;
  for (int64_t j = 0; j < end; j += kTile) {
    __syncthreads();  // the tile before is done with; and own rows have come
    load_rows(a.keys, place + a.k_offset, a.k_at.row, j, keys, kTile, a.d, 1, k_tile);
    load_rows(a.keys, place + a.v_offset, a.k_at.row, j, keys, kTile, a.d, 1, v_tile);
    __syncthreads();
    float p[kOwnOfWarp];
    dots(own, k_tile, a.d, p);
    for (int r = 0; r < kOwnOfWarp; ++r) {
      const Pair pair =
          pair_of(a, b, head, first + warp_index() * kOwnOfWarp + r, j + lane_index());
      const float s = pair.visible ? score(a, pair, p[r]) : -INFINITY;
      const float raised = fmaxf(most[r], warp_max(s));
      // A row beyond the end sees nothing.
      const float shrink = raised == -INFINITY ? 1.0f : expf(most[r] - raised);
      p[r] = pair.visible ? expf(s - raised) : 0.0f;
      total[r] = total[r] * shrink + warp_sum(p[r]);
      if (pair.visible) p[r] *= kept(a, pair, key);
      for (int e = 0; e < kPer; ++e) sum[r][e] *= shrink;
      most[r] = raised;
    }
    add_weighted(p, v_tile, a.d, sum);
  }
  for (int r = 0; r < kOwnOfWarp; ++r) {
    const int64_t i = first + warp_index() * kOwnOfWarp + r;
    if (i >= a.t) continue;
    store_row(a.out, ((b * a.t + i) * a.heads() + head) * a.d, a.d, sum[r], 1.0f / total[r]);
    if (a.lse != nullptr && lane_index() == 0)
      a.lse[(b * a.heads() + head) * a.t + i] = most[r] + logf(total[r]);
  }
}

struct CacheRows {
  AttentionWork a;
  FreshRows fresh;
  __host__ __device__ int64_t count() const { return a.b * a.t * a.kv * 2 * a.d; }
  __device__ void operator()(int64_t i) const {
    const int64_t k = i % a.d, which = i / a.d % 2, kv = i / (2 * a.d) % a.kv;
    const int64_t t = i / (2 * a.d * a.kv) % a.t, b = i / (2 * a.d * a.kv * a.t);
    const float x = read(fresh.data, fresh.at.at(b, t, kv, fresh.slots - 2 + which) + k);
    write(a.keys, a.k_at.at(b, *a.start + t, kv, 0) + (which ? a.v_offset : a.k_offset) + k, x);
  }
};

}  // namespace

void launch_attention(const AttentionWork& a, Stream s) {
  const Grid grid = {.x = blocks_for(a.t, kOwn),
                     .y = a.heads(),
                     .z = a.b,
                     .threads = kWarps * kWarp,
                     .shared_bytes = shared_bytes(a.d, 1)};
  if (a.d <= 64)
    launch("attention", attention_kernel<2>, grid, s, a);
  else if (a.d <= 128)
    launch("attention", attention_kernel<4>, grid, s, a);
  else
    launch("attention", attention_kernel<8>, grid, s, a);
}

void launch_cache_rows(const AttentionWork& a, const FreshRows& fresh, Stream s) {
  launch_map("cache_rows", s, CacheRows{a, fresh});
}

}  // namespace tessera::kernels::cuda

// The largest attention scores on the GPU (MaxScoresArgs): the scores of the plain attention
// kernel (attention_tiles.h) without a softmax. A block has 16 queries of one head, and raises the
// maximum of its group by an atomic operation, which has the same result in any order.
#include "kernels/gpu/attention_tiles.h"

namespace tessera::kernels::gpu {
namespace {

struct MaxScoresWork {
  AttentionWork attention;
  float* most = nullptr;  // [KV]
};

__global__ void max_scores_kernel(const MaxScoresWork work) {
  const AttentionWork& a = work.attention;
  const int64_t b = blockIdx.z, head = blockIdx.y, kv = head / a.g, g = head % a.g;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kOwnRowsPerBlock;
  float* const memory = shared_floats();
  const SharedRows own = {memory, a.d}, tile = {memory + kOwnRowsPerBlock * a.d, a.d + 1};
  load_rows(a.q, a.q_at.at(b, 0, kv, g), a.q_at.row, first, a.t, kOwnRowsPerBlock, a.d, a.scale,
            own);
  const int64_t start = a.first_position(b), keys = a.key_count(b);
  const int64_t last = start + first + kOwnRowsPerBlock;
  const int64_t end = a.causal && last < keys ? last : keys;
  const int64_t place = a.k_at.at(b, 0, kv, 0) + a.k_offset;
  float best = 0;
  for (int64_t j = a.first_key(start + first, kTile); j < end; j += kTile) {
    __syncthreads();  // the previous tile is no longer read, and the own rows have arrived
    load_rows(a.keys, place, a.k_at.row, j, keys, kTile, a.d, 1, tile);
    __syncthreads();
    float dot[kOwnRowsPerWarp];
    dots(own, tile, a.d, dot);
    for (int r = 0; r < kOwnRowsPerWarp; ++r) {
      const Pair pair =
          pair_of(a, b, head, first + warp_index() * kOwnRowsPerWarp + r, j + lane_index());
      if (pair.visible && !is_hidden(a, pair)) best = fmaxf(best, dot[r]);
    }
  }
  best = warp_max(best);
  // The bits of floats from 0 on are ordered as integers.
  if (lane_index() == 0 && best > 0)
    atomicMax(reinterpret_cast<unsigned*>(work.most + kv), __float_as_uint(best));
}

}  // namespace
}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const MaxScoresArgs& args) {
  AttentionArgs as;
  as.qkv = as.out = args.qkv;  // no output is written
  as.kv = args.kv;
  as.scale = args.scale;
  as.scope = args.scope;
  const AttentionWork a = work_of(as);
  const Grid grid = {.x = blocks_for(a.t, kOwnRowsPerBlock),
                     .y = a.heads(),
                     .z = a.b,
                     .threads = kWarps * kWarp,
                     .shared_bytes = shared_bytes(a.d, 1)};
  launch("max_scores", max_scores_kernel, grid, l.stream, MaxScoresWork{a, args.most.f32()});
}

}  // namespace tessera::kernels

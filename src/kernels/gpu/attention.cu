// Tiled attention by plain kernels, and the choice between these and tensor cores
// (kernels/attention.h has the formulas). The algorithm is FlashAttention's online softmax (Dao et
// al. 2022): per query the maximum m so far, the sum l and the output o relative to m; a tile of
// keys that raises m to m' multiplies l and o by e^(m - m') first.
//
// A block has 4 warps and 16 queries of one head, four per warp; the grid is (T / 16, H, B).
//
//   shared, f32:  [ own queries 16 x D | keys 32 x (D + 1) | values 32 x (D + 1) ]
//                 20 KiB for D = 64, 80 KiB for D = 256
//   scores:       lane j of a warp has the scores of its four queries with key j of the tile
//   output:       the same lane has dimensions j, j + 32, … of the four queries (kPer of them)
//
// Each output element is summed by one lane in the order of keys, so the bits are the same in every
// run.
#include "kernels/attention.h"
#include "kernels/gpu/attention_tiles.h"

namespace tessera::kernels::gpu {
namespace {

// A block has 16 queries of a head. kPer: dimensions per lane, at least D / 32.
template <int kPer>
__global__ void attention_kernel(const AttentionWork a) {
  const int64_t b = blockIdx.z, head = blockIdx.y, kv = head / a.g, g = head % a.g;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kOwnRowsPerBlock;
  float* const memory = shared_floats();
  const SharedRows own = {memory, a.d}, k_tile = {memory + kOwnRowsPerBlock * a.d, a.d + 1},
                   v_tile = {k_tile.data + kTile * (a.d + 1), a.d + 1};
  load_rows(a.q, a.q_at.at(b, 0, kv, g), a.q_at.row, first, a.t, kOwnRowsPerBlock, a.d, a.scale,
            own);
  const int64_t start = a.first_position(b), keys = a.key_count(b);
  // Causal: keys after the last query of the block are never loaded.
  const int64_t last = start + first + kOwnRowsPerBlock;
  const int64_t end = a.causal && last < keys ? last : keys;
  const uint64_t key = a.drop > 0 ? value_of(a.mask) : 0;
  const int64_t place = a.k_at.at(b, 0, kv, 0);
  float most[kOwnRowsPerWarp], total[kOwnRowsPerWarp] = {}, sum[kOwnRowsPerWarp][kPer] = {};
  for (float& x : most) x = -INFINITY;
  for (int64_t j = a.first_key(start + first, kTile); j < end; j += kTile) {
    __syncthreads();  // the previous tile is no longer read, and the own rows have arrived
    load_rows(a.keys, place + a.k_offset, a.k_at.row, j, keys, kTile, a.d, 1, k_tile);
    load_rows(a.keys, place + a.v_offset, a.k_at.row, j, keys, kTile, a.values, 1, v_tile);
    __syncthreads();
    float p[kOwnRowsPerWarp];
    dots(own, k_tile, a.d, p);
    for (int r = 0; r < kOwnRowsPerWarp; ++r) {
      const Pair pair =
          pair_of(a, b, head, first + warp_index() * kOwnRowsPerWarp + r, j + lane_index());
      const float s = pair.visible ? score(a, pair, p[r]) : -INFINITY;
      const float raised = fmaxf(most[r], warp_max(s));
      // A row past the end sees no key: its maximum stays -infinity, and the difference would be
      // NaN.
      const float shrink = raised == -INFINITY ? 1.0f : expf(most[r] - raised);
      p[r] = pair.visible ? expf(s - raised) : 0.0f;
      // Dropout applies to the terms of the output, not to the normalizing sum.
      total[r] = total[r] * shrink + warp_sum(p[r]);
      if (pair.visible) p[r] *= kept(a, pair, key);
      for (int e = 0; e < kPer; ++e) sum[r][e] *= shrink;
      most[r] = raised;
    }
    add_weighted(p, v_tile, a.values, sum);
  }
  for (int r = 0; r < kOwnRowsPerWarp; ++r) {
    const int64_t i = first + warp_index() * kOwnRowsPerWarp + r;
    if (i >= a.t) continue;
    const RowEnd ends = row_end(a, head, most[r], total[r]);
    store_row(a.out, a.out_at(b, i, head), a.values, sum[r], ends.factor);
    if (a.lse != nullptr && lane_index() == 0) a.lse[(b * a.heads() + head) * a.t + i] = ends.lse;
  }
}

// Copies the keys and values of the new tokens into the cache (the array of a.keys). In `fresh`
// they are the last two slots of each group.
struct FreshRows {
  Numbers data;
  RowPlaces at;
  int64_t slots = 2;
};

struct CacheRows {
  AttentionWork a;
  FreshRows fresh;
  __host__ __device__ int64_t count() const { return a.b * a.t * a.kv * 2 * a.d; }
  __device__ void operator()(int64_t i) const {
    const int64_t k = i % a.d, which = i / a.d % 2, kv = i / (2 * a.d) % a.kv;
    const int64_t t = i / (2 * a.d * a.kv) % a.t, b = i / (2 * a.d * a.kv * a.t);
    const float x = read(fresh.data, fresh.at.at(b, t, kv, fresh.slots - 2 + which) + k);
    const int64_t to = a.k_at.at(b, a.first_position(b) + t, kv, 0);
    write(a.keys, to + (which ? a.v_offset : a.k_offset) + k, x);
  }
};

void launch_plain(const AttentionWork& a, Stream s) {
  const Grid grid = {.x = blocks_for(a.t, kOwnRowsPerBlock),
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

BucketSteps bucket_steps(const AttentionScope& scope, int64_t longest) {
  const int64_t buckets = scope.bias.shape[1];
  const RelativeBuckets r{buckets, scope.bias_distance, scope.causal};
  BucketSteps steps;
  steps.causal = scope.causal;
  steps.side = static_cast<int>(scope.causal ? buckets : buckets / 2);
  require(steps.side <= kMostBuckets, "more than 64 buckets of distances on one side");
  for (int k = 0; k < steps.side; ++k) steps.first[k] = INT32_MAX;
  // Inverts relative_bucket() by walking distances downwards: first[k] ends as the smallest
  // distance of bucket k. A bucket that no distance falls into begins where the next one does, so
  // the search in BucketSteps::of skips it.
  for (int64_t n = longest; n >= 0; --n) {
    const int64_t k =
        relative_bucket(r, -n);  // keys before the query have the lower half of the buckets
    for (int64_t i = k; i >= 0 && steps.first[i] > n; --i) steps.first[i] = static_cast<int32_t>(n);
  }
  return steps;
}

void set_scope(const AttentionScope& scope, AttentionWork& w) {
  w.causal = scope.causal;
  w.first_query = scope.first_query;
  w.window = scope.window;
  w.soft_cap = scope.soft_cap;
  w.labels = scope.documents.as<int32_t>();
  w.ids = scope.ids.as<int32_t>();
  if (!scope.bias) return;
  w.bias = numbers(scope.bias);
  w.buckets = scope.bias.shape[1];
  w.steps = bucket_steps(scope, w.t + w.s);
}

void set_dropout(const AttentionDropout& d, AttentionWork& w) {
  if (d.dropout.probability <= 0) return;
  w.drop = d.dropout.probability;
  w.drop_scale = 1.0f / (1.0f - w.drop);
  w.mask = {d.dropout.key, d.dropout.seed, d.dropout.step, d.dropout.layer};
  w.samples = d.samples.as<int64_t>();
  w.first_head = d.first_head;
  if (d.queries > 0) w.queries = d.queries;
}

// Returns the fields that attention and its gradient share.
template <class Kernel>
AttentionWork common_work(const Kernel& a) {
  const Shape& q = a.qkv.shape;
  const bool apart = static_cast<bool>(a.kv);
  View keys = apart ? a.kv : a.qkv;
  AttentionWork w;
  w.b = q[0];
  w.t = w.queries = q[1];
  w.s = keys.shape[1];
  w.kv = q[2];
  w.g = q[3] - (apart ? 0 : 2);
  w.d = static_cast<int>(q[4]);
  w.values = static_cast<int>(a.out.shape[-1]);
  require(w.d <= 256 && w.values <= w.d && w.g >= 1 && w.b <= 65535,
          "attention needs V <= D <= 256, a query head per group and at most 65,535 samples");
  w.scale = a.scale;
  w.q = numbers(a.qkv);
  w.q_at = row_places(a.qkv);
  w.keys = numbers(keys);
  w.k_at = row_places(keys);
  w.k_offset = (keys.shape[3] - 2) * w.d;
  w.v_offset = (keys.shape[3] - 1) * w.d;
  w.out = numbers(a.out);
  w.lse = a.lse ? a.lse.f32() : nullptr;
  set_scope(a.scope, w);
  set_dropout(a.dropout, w);
  return w;
}

}  // namespace

AttentionWork work_of(const AttentionArgs& a) {
  AttentionWork w = common_work(a);
  w.sinks = numbers(a.sinks);
  return w;
}
AttentionWork work_of(const AttentionGradArgs& a) { return common_work(a); }

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const AttentionArgs& a) {
  require(!a.continues && a.scope.tokens == 0, "attention to a block of the keys on a GPU");
  const AttentionWork w = work_of(a);
  if (w.on_tensor_cores())
    launch_attention_tensor_cores(w, l.stream);
  else
    launch_plain(w, l.stream);
}

void launch(Gpu, const Launch& l, const CachedAttentionArgs& a) {
  const Shape& cache = a.cache.shape;  // [B, C, 2, KV, D]
  View fresh = a.kv ? a.kv : a.qkv;
  AttentionArgs plain;
  plain.qkv = a.qkv;
  plain.kv = a.kv;
  plain.out = a.out;
  plain.scale = a.scale;
  plain.sinks = a.sinks;
  AttentionWork w = work_of(plain);
  w.start = a.start;
  w.s = cache[1];
  w.keys = numbers(a.cache);
  w.k_at = {cache[1] * 2 * cache[3] * cache[4], 2 * cache[3] * cache[4], cache[4], 0};
  w.k_offset = 0;
  w.v_offset = cache[3] * cache[4];
  AttentionScope scope;
  scope.bias = a.bias;
  scope.bias_distance = a.bias_distance;
  scope.window = a.window;
  scope.soft_cap = a.soft_cap;
  set_scope(scope, w);
  launch_map("cache_rows", l.stream,
             CacheRows{w, {numbers(fresh), row_places(fresh), fresh.shape[3]}});
  launch_plain(w, l.stream);
}

}  // namespace tessera::kernels

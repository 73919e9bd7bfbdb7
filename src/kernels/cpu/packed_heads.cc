// Addresses of heads in packed arrays, and the buffers of one thread. The row of a token has KV
// groups, each with G queries, a key and a value:
//
//   token t:   | q0 q1 … q(G-1)  k  v | q0 q1 … q(G-1)  k  v | …      D numbers each
//                group 0                group 1
//   slot s of group kv:   ((t KV + kv) (G + 2) + s) D
//
// carve() both counts the bytes of the buffers and assigns them, so the two cannot disagree.
#include "kernels/cpu/packed_heads.h"

namespace tessera::kernels {

namespace {

// Allocates buffers one after another in a workspace; without a workspace it only counts.
struct Carver {
  float* base;
  int64_t used = 0;
  float* take(int64_t floats) {
    float* const p = base == nullptr ? nullptr : base + used;
    used += round_up(floats, kPad);
    return p;
  }
};

HeadBuffers carve(Carver& c, int64_t t, int64_t s, int64_t d, bool grad) {
  const int64_t width = round_up(d, kPad), tile = kTile * width;
  const int64_t keys = round_up(s, kTile) * width, queries = round_up(t, kTile) * width;
  const int64_t distances = round_up(t, kTile) + round_up(s, kTile);
  HeadBuffers b{};
  b.k_transposed = c.take(keys);
  b.k = c.take(grad ? keys : tile);
  b.q = c.take(grad ? queries : tile);
  b.dq = c.take(grad ? queries : tile);
  b.bias = c.take(distances);
  b.labels = reinterpret_cast<int32_t*>(c.take(round_up(s, kTile)));
  b.scores = c.take(kTile * kTile);
  b.mask = c.take(kTile * kTile);
  if (grad) {
    b.v_transposed = c.take(keys);
    b.d_out = c.take(queries);
    b.dk = c.take(keys);
    b.dv = c.take(keys);
    b.d_bias = c.take(distances);
    b.d_scores = c.take(kTile * kTile);
    b.delta = c.take(round_up(t, kTile));
  } else {
    b.v = c.take(keys);
    b.row_max = c.take(kTile);
    b.row_sum = c.take(kTile * kPad);
  }
  return b;
}

}  // namespace

PackedHeads::PackedHeads(const TensorView& qkv, const TensorView& apart, int64_t width)
    : b(qkv.shape[0]),
      t(qkv.shape[1]),
      s(apart ? apart.shape[1] : qkv.shape[1]),
      kv(qkv.shape[2]),
      g(qkv.shape[3] - (apart ? 0 : 2)),
      d(qkv.shape[4]),
      values(width > 0 ? width : d),
      query_slots_(qkv.shape[3]),
      key_slots_(apart ? 2 : qkv.shape[3]) {
  CHECK(qkv.shape.rank() == 5 && g >= 1 && values <= d, "attention: qkv {}, values of {}",
        to_string(qkv.shape), values);
  CHECK(!apart || apart.shape == Shape({b, s, kv, 2, d}), "attention: qkv {}, kv {}",
        to_string(qkv.shape), to_string(apart.shape));
}

KeyHead PackedHeads::keys(const TensorView& v, int64_t sample, int64_t group, float scale) const {
  KeyHead keys;
  keys.t = s;
  keys.d = d;
  keys.values = values;
  keys.queries = t;
  keys.scale = scale;
  keys.k = key(v, sample, group);
  keys.v = value(v, sample, group);
  return keys;
}

int64_t head_buffers_bytes(int64_t t, int64_t s, int64_t d, HeadUse use) {
  Carver count{nullptr};
  carve(count, t, s, d, use == HeadUse::kGradient);
  return bytes_for<float>(count.used);
}

HeadBuffers head_buffers(void* workspace, int thread, int64_t t, int64_t s, int64_t d,
                         HeadUse use) {
  Carver c{reinterpret_cast<float*>(
      element(workspace, DType::kU8, thread * head_buffers_bytes(t, s, d, use)))};
  return carve(c, t, s, d, use == HeadUse::kGradient);
}

HeadDropout head_dropout(const AttentionDropout& a, const PackedHeads& p, int64_t sample,
                         int64_t head) {
  if (a.dropout.probability <= 0) return {};
  const int64_t row = round_up(a.keys > 0 ? a.keys : p.s, 4);
  CHECK(a.first_key % 4 == 0, "attention dropout from key {} on", a.first_key);
  const uint64_t number = a.samples.as<int64_t>()[sample];
  return {.threshold = dropout_threshold(a.dropout.probability),
          .key = mask_key(a.dropout),
          .sample = number,
          .first_element =
              ((a.first_head + head) * (a.queries > 0 ? a.queries : p.t) + a.first_query) * row +
              a.first_key,
          .row_elements = row,
          .scale = 1.0f / (1.0f - a.dropout.probability)};
}

void check_attention(const PackedHeads& p, const TensorView& out, const TensorView& lse,
                     const AttentionDropout& drop) {
  CHECK(out.elements() == p.b * p.t * p.heads() * p.values, "attention of {} heads of {} into {}",
        p.heads(), p.values, to_string(out.shape));
  CHECK(!lse || lse.elements() == p.b * p.heads() * p.t, "attention: log-sum-exp {}",
        to_string(lse.shape));
  CHECK(drop.dropout.probability <= 0 ||
            (drop.samples.dtype == DType::kI64 && drop.samples.elements() == p.b),
        "attention dropout needs the indices of {} samples", p.b);
}

}  // namespace tessera::kernels

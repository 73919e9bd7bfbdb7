// Computes the addresses of heads in [B, T, KV, G+2, D], [B, S, KV, 2, D] and [B, T, H, V].
#pragma once

#include "kernels/cpu/attention_head.h"

namespace tessera::kernels {

struct PackedHeads {
  int64_t b, t, s, kv, g, d, values;

  // `width`: V, the width of values and outputs; 0: D.
  explicit PackedHeads(const TensorView& qkv, const TensorView& apart = {}, int64_t width = 0);
  int64_t heads() const { return kv * g; }

  // `v` has the shape of qkv.
  Rows query(const TensorView& v, int64_t sample, int64_t group, int64_t member) const {
    return slot(v, sample * t, query_slots_, group, member);
  }
  // `v` has the shape of the array that contains keys and values: kv, or else qkv.
  Rows key(const TensorView& v, int64_t sample, int64_t group) const {
    return slot(v, sample * s, key_slots_, group, key_slots_ - 2);
  }
  Rows value(const TensorView& v, int64_t sample, int64_t group) const {
    return slot(v, sample * s, key_slots_, group, key_slots_ - 1);
  }
  // Returns all keys and values of a group, without a mask; `scale` is that of the scores.
  KeyHead keys(const TensorView& v, int64_t sample, int64_t group, float scale) const;
  Rows out(const TensorView& v, int64_t sample, int64_t head) const {
    return {Sink(v) + (sample * t * heads() + head) * values, heads() * values};
  }

 private:
  Rows slot(const TensorView& v, int64_t row, int64_t slots, int64_t group, int64_t member) const {
    const int64_t width = kv * slots * d;
    return {Sink(v) + (row * width + (group * slots + member) * d), width};
  }
  int64_t query_slots_, key_slots_;  // slots per group
};

// Returns the number of keys of attention with operands of these shapes; data may be null.
inline int64_t keys_of(const TensorView& qkv, const TensorView& apart) {
  return apart.shape.rank() > 0 ? apart.shape[1] : qkv.shape[1];
}

// Selects the buffers of HeadBuffers.
enum class HeadUse : uint8_t { kForward, kGradient };
int64_t head_buffers_bytes(int64_t t, int64_t s, int64_t d, HeadUse use);  // per thread
HeadBuffers head_buffers(void* workspace, int thread, int64_t t, int64_t s, int64_t d, HeadUse use);

HeadDropout head_dropout(const AttentionDropout& a, const PackedHeads& p, int64_t sample,
                         int64_t head);
void check_attention(const PackedHeads& p, const TensorView& out, const TensorView& lse,
                     const AttentionDropout& drop);

}  // namespace tessera::kernels

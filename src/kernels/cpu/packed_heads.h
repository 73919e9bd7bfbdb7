// Where the slices of [B, T, KV, G+2, D] and [B, T, H, D] are.
#pragma once

#include "kernels/cpu/attention_head.h"

namespace tessera::kernels {

struct PackedHeads {
  int64_t b, t, kv, g, d;

  explicit PackedHeads(const TensorView& qkv)
      : b(qkv.shape[0]), t(qkv.shape[1]), kv(qkv.shape[2]), g(qkv.shape[3] - 2), d(qkv.shape[4]) {
    CHECK(qkv.shape.rank() == 5 && g >= 1, "attention of {}", to_string(qkv.shape));
  }
  int64_t heads() const { return kv * g; }

  Rows query(const TensorView& v, int64_t sample, int64_t group, int64_t member) const {
    return slot(v, sample, group, member);
  }
  Rows key(const TensorView& v, int64_t sample, int64_t group) const {
    return slot(v, sample, group, g);
  }
  Rows value(const TensorView& v, int64_t sample, int64_t group) const {
    return slot(v, sample, group, g + 1);
  }
  Rows out(const TensorView& v, int64_t sample, int64_t head) const {
    return {Sink(v) + (sample * t * heads() + head) * d, heads() * d};
  }

 private:
  Rows slot(const TensorView& v, int64_t sample, int64_t group, int64_t member) const {
    const int64_t row = kv * (g + 2) * d;
    return {Sink(v) + (sample * t * row + (group * (g + 2) + member) * d), row};
  }
};

// Which buffers of HeadBuffers there are, and how large.
enum class HeadUse : uint8_t { kForward, kGradient };
int64_t head_buffers_bytes(int64_t t, int64_t d, HeadUse use);  // of one thread
HeadBuffers head_buffers(void* workspace, int thread, int64_t t, int64_t d, HeadUse use);

HeadDropout head_dropout(const AttentionDropout& a, const PackedHeads& p, int64_t sample,
                         int64_t head);
void check_attention(const PackedHeads& p, const TensorView& out, const TensorView& lse,
                     const AttentionDropout& drop);

}  // namespace tessera::kernels

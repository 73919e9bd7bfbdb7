// Attention in tiles (online softmax: Milakov & Gimelshein 2018; backward from the log-sum-exp: Dao
// 2023). No T x S buffer. Heads come in KV groups of G query heads that share one key and one value
// (G = 1: multi-head attention). H = KV * G.
//   s[i,j] = scale * q[i] . k[j] + bias[i,j]  for each j that i sees (AttentionScope)
//   p = softmax_j(s),   out[i] = sum_j p[i,j] v[j]
// Storage f32, bf16 or f16; all arithmetic f32. D: a multiple of 8 up to 256; any T. The bits do
// not depend on the number of threads; work is shared out by (sample, key head), so more than B *
// KV threads have nothing to do.
#pragma once

#include <cstdint>

#include "kernels/dropout.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

// What a query sees, and what is added to its scores.
struct AttentionScope {
  bool causal = true;  // of keys, those at j <= i
  // [B, T] i32: of these the keys of the query's own document; no data: of all.
  TensorView documents = {};
  // [B, S] i32: keys with id 0 are padding, which nobody sees; no data: none is. A query that sees
  // no key gets the mean of all values; the gradient of its output must be zero.
  TensorView ids = {};
  // [H, N] f32 or bf16: bias[h, relative_bucket(j - i)] is added (relative_position.h); or no data.
  TensorView bias = {};
  int64_t bias_distance = 128;
};

// Dropout of probabilities: element ((first_head + h) * T + i) * (S rounded up to 4) + j of
// sample b is dropped as in dropout.h.
struct AttentionDropout {
  Dropout dropout;
  TensorView samples;      // [B] i64
  int64_t first_head = 0;  // global number of local head 0
};

struct Attention {
  TensorView qkv;  // [B, T, KV, G+2, D]; with kv [B, T, KV, G, D]
  TensorView out;  // [B, T, H, D]  written
  TensorView lse;  // [B, H, T] f32  written: log sum_j exp(s); no data: not wanted
  float scale = 1;
  AttentionDropout dropout;
  int threads = 1;     // used, and what the workspace is for
  TensorView kv = {};  // [B, S, KV, 2, D]: keys and values of another sequence; no data: S = T
  AttentionScope scope = {};
};
// s = 0: as t.
int64_t attention_workspace_bytes(int64_t t, int64_t d, int threads, int64_t s = 0);
void attention(const Attention& a, void* workspace);

struct AttentionGrad {
  TensorView qkv;    // [B, T, KV, G+2, D]
  TensorView out;    // [B, T, H, D]
  TensorView lse;    // [B, H, T] f32
  TensorView d_out;  // [B, T, H, D]
  TensorView d_qkv;  // [B, T, KV, G+2, D]  written
  float scale = 1;
  AttentionDropout dropout;  // as in the forward
  int threads = 1;
  TensorView kv = {}, d_kv = {};  // d_kv written
  AttentionScope scope = {};
  TensorView d_bias = {};   // [H, N] f32, bf16 or f16  added to
  bool fresh_bias = false;  // … or written
};
// bias_parts: B * H * N where there is a bias.
int64_t attention_grad_workspace_bytes(int64_t t, int64_t d, int threads, int64_t s = 0,
                                       int64_t bias_parts = 0);
void attention_grad(const AttentionGrad& a, void* workspace);

// Decoding: T tokens at positions start .. start+T-1 of each sequence. Writes their keys and
// values into the cache, then attends to positions 0 .. own.
struct CachedAttention {
  TensorView qkv;    // [B, T, KV, G+2, D]
  TensorView cache;  // [B, C, 2, KV, D]  rows start .. start+T-1 written; start + T <= C
  const int32_t* start = nullptr;  // where the kernel runs
  TensorView out;                  // [B, T, H, D]  written
  float scale = 1;
  int threads = 1;
  TensorView kv = {};    // [B, T, KV, 2, D]: the new keys and values, where qkv is [B, T, KV, G, D]
  TensorView bias = {};  // as AttentionScope has it
  int64_t bias_distance = 128;
};
int64_t cached_attention_workspace_bytes(int64_t c, int64_t d, int threads);
void cached_attention(const CachedAttention& a, void* workspace);

}  // namespace tessera::kernels

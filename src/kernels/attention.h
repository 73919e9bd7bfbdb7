// Attention in tiles (online softmax: Milakov & Gimelshein 2018; backward from the log-sum-exp: Dao
// 2023). No T x S buffer. Heads come in KV groups of G query heads that share one key and one value
// (G = 1: multi-head attention). H = KV * G.
//   s[i,j] = cap(scale * q[i] . k[j]) + bias[i,j]  for each j that i sees (AttentionScope)
//   p = softmax_j(s),   out[i] = sum_j p[i,j] v[j]
// Values may be narrower than keys: only the first V <= D numbers of their rows are read, and the
// gradient of the rest is zero. A head may have a sink: one more learned score in the sum of each
// row's softmax, without a value (gpt-oss; Xiao et al. 2024). p and lse contain it, so the gradient
// of q, k and v is as without. Storage f32, bf16 or f16; all arithmetic f32. D and V: multiples of
// 8 up to 256; any T. The bits do not depend on the number of threads; work is shared out by
// (sample, key head), so more than B * KV threads have nothing to do.
#pragma once

#include <cstdint>

#include "kernels/dropout.h"
#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

// T5's buckets of distances (Raffel et al. 2020): each small distance has a bucket, larger ones
// share buckets, and all distances from `distance` on have the last one.
//   n = distance of key - query, e = half of the buckets of one side
//   bucket = n for n < e, else min(e + floor(log(n / e) / log(distance / e) * (side - e)), side -
//   1)
// Causal: n = query - key, later keys count as n = 0, and one side has all buckets. Otherwise each
// side has half of them, later keys the upper half. In f32, as transformers and Mesh TensorFlow
// compute it.
struct RelativeBuckets {
  int64_t buckets = 32, distance = 128;
  bool causal = true;
};
int64_t relative_bucket(const RelativeBuckets& r, int64_t key_minus_query);

// Which keys each query attends to, and the bias of its scores.
struct AttentionScope {
  bool causal = true;  // query i attends only to keys j <= i
  // The position of the first query among the keys: row r is query i = first_query + r. Not with a
  // bias.
  int64_t first_query = 0;
  // If the keys are a block of a sequence: the position of its first key, and the tokens of the
  // sequence, to which first_query and documents [B, tokens] then refer. The attention must be
  // causal, and the first query not before the first key. tokens 0: the keys are the whole
  // sequence.
  int64_t first_key = 0, tokens = 0;
  int64_t window = 0;  // and only to keys j > i - window; 0: no window
  float soft_cap = 0;  // cap(s) = soft_cap * tanh(s / soft_cap); 0: s. Not with a bias
  // [B, S] i32: a query attends only to keys of its own document; no data: one document per row.
  TensorView documents = {};
  // [B, S] i32: keys with id 0 are padding and are masked; no data: no padding. A query whose keys
  // are all masked gets the mean of all values; the gradient of its output must be zero.
  TensorView ids = {};
  // [H, N] f32 or bf16: bias[h, relative_bucket(j - i)] is added; or no data.
  TensorView bias = {};
  int64_t bias_distance = 128;
};

// Dropout of probabilities: element ((first_head + h) * queries + first_query + i) * (S rounded up
// to 4) + j of sample b is dropped as in dropout.h.
struct AttentionDropout {
  Dropout dropout;
  TensorView samples;                    // [B] i64
  int64_t first_head = 0;                // global number of local head 0
  int64_t first_query = 0, queries = 0;  // in the whole sequence; queries 0: T
  int64_t first_key = 0, keys = 0;       // a multiple of 4; the keys of the sequence (0: S)
};

struct AttentionArgs {
  TensorView qkv;  // [B, T, KV, G+2, D]; with kv [B, T, KV, G, D]
  TensorView out;  // [B, T, H, V]  written
  TensorView lse;  // [B, H, T] f32  written: log sum_j exp(s), sinks included; no data: not written
  float scale = 1;
  AttentionDropout dropout = {};
  TensorView kv = {};  // [B, S, KV, 2, D]: keys and values in an array of their own; no data: S = T
  AttentionScope scope = {};
  TensorView sinks = {};  // [H] f32, bf16 or f16; no data: none
  // out, which is f32, and lse hold the result of a launch for other keys, and the kernel continues
  // that softmax over its own keys. Without sinks, which are terms of the first launch. Only on the
  // CPU.
  bool continues = false;
};
void launch(Cpu, const Launch&, const AttentionArgs&);
void launch(Gpu, const Launch&, const AttentionArgs&);
int64_t workspace_bytes(Cpu, const AttentionArgs&, int threads);

struct AttentionGradArgs {
  TensorView qkv;    // [B, T, KV, G+2, D]
  TensorView out;    // [B, T, H, V]
  TensorView lse;    // [B, H, T] f32
  TensorView d_out;  // [B, T, H, V]
  TensorView d_qkv;  // [B, T, KV, G+2, D]  written
  float scale = 1;
  AttentionDropout dropout = {};  // as in the forward
  TensorView kv = {}, d_kv = {};  // d_kv written
  AttentionScope scope = {};
  TensorView d_bias = {};   // [H, N] f32, bf16 or f16  added to
  bool fresh_bias = false;  // … or written
  bool add = false;         // d_qkv and d_kv are f32 and added to. Only on the CPU
};
void launch(Cpu, const Launch&, const AttentionGradArgs&);
void launch(Gpu, const Launch&, const AttentionGradArgs&);
int64_t workspace_bytes(Cpu, const AttentionGradArgs&, int threads);
int64_t workspace_bytes(Gpu, const AttentionGradArgs&, int threads);

// d_sinks[h] -= sum over b and i of exp(sinks[h] - lse[b,h,i]) * <out[b,i,h], d_out[b,i,h]>: the
// sink's probability times the derivative of its score, as it has no value.
struct SinksGradArgs {
  TensorView sinks;       // [H] f32, bf16 or f16
  TensorView out, d_out;  // [B, T, H, V]
  TensorView lse;         // [B, H, T] f32
  TensorView d_sinks;     // [H] f32, bf16 or f16  added to
  // out and d_out are [B, H, T, S], the probabilities and their gradients: <., .> is the same.
  bool by_head = false;
};
void launch(Cpu, const Launch&, const SinksGradArgs&);
void launch(Gpu, const Launch&, const SinksGradArgs&);

// Decoding: T tokens of sequence b at positions start[b T] .. start[b T] + T - 1. Writes their keys
// and values into the cache. A token then attends to all positions up to its own.
struct CachedAttentionArgs {
  TensorView qkv;    // [B, T, KV, G+2, D]
  TensorView cache;  // [B, C, 2, KV, D]  rows start .. start+T-1 written; start + T <= C
  const int32_t* start = nullptr;  // [B, T]: all positions; memory of the kernel's device
  TensorView out;                  // [B, T, H, V]  written
  float scale = 1;
  TensorView kv = {};    // [B, T, KV, 2, D]: the new keys and values, where qkv is [B, T, KV, G, D]
  TensorView bias = {};  // this and the fields below: as in AttentionScope
  int64_t bias_distance = 128;
  int64_t window = 0;
  float soft_cap = 0;
  TensorView sinks = {};
};
void launch(Cpu, const Launch&, const CachedAttentionArgs&);
void launch(Gpu, const Launch&, const CachedAttentionArgs&);
int64_t workspace_bytes(Cpu, const CachedAttentionArgs&, int threads);

// The largest scores, for MuonClip (ir/ops/max_scores.h): for each key/value head k,
//   most[k] = max(most[k], max scale * q[i] . k[j])
// over the samples, the G query heads of the group, and each j that i sees.
struct MaxScoresArgs {
  TensorView qkv;   // [B, T, KV, G+2, D]; with kv [B, T, KV, G, D]
  TensorView most;  // [KV] f32, at least 0  raised
  float scale = 1;
  TensorView kv = {};         // [B, S, KV, 2, D]; no data: S = T
  AttentionScope scope = {};  // without soft_cap, ids and bias
};
void launch(Cpu, const Launch&, const MaxScoresArgs&);
void launch(Gpu, const Launch&, const MaxScoresArgs&);
int64_t workspace_bytes(Cpu, const MaxScoresArgs&, int threads);

}  // namespace tessera::kernels

// Launchers of attention's textbook parts (kernels/attention_parts.h), plain: an element a thread.
#pragma once

#include "kernels/cuda/attention.h"

namespace tessera::kernels::cuda {

struct PartsWork {
  int64_t b = 0, t = 0, kv = 0, g = 0, d = 0;
  float scale = 1;
  Numbers qkv, d_qkv;        // [B, T, KV, G+2, D]
  RowPlaces at;              // of their rows
  Numbers square, d_square;  // [B, H, T, T]: scores or probabilities, and their gradient
  Numbers out;               // [B, T, H, D]; or its gradient

  __host__ __device__ int64_t heads() const { return kv * g; }
};
void launch_attention_scores(const PartsWork& a, Stream s);       // square from qkv
void launch_attention_scores_grad(const PartsWork& a, Stream s);  // d_qkv's q and k from d_square
void launch_attention_mix(const PartsWork& a, Stream s);          // out from square and qkv
void launch_attention_mix_grad(const PartsWork& a, Stream s);     // d_square, d_qkv's v from out

struct SoftmaxWork {
  int64_t rows = 0, columns = 0;
  Numbers x, y;  // of the gradient: y, dy
  Numbers to;
};
void launch_softmax(const SoftmaxWork& a, Stream s);  // of x
void launch_softmax_grad(const SoftmaxWork& a, Stream s);

}  // namespace tessera::kernels::cuda

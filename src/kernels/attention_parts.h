// Causal attention in its textbook parts, with the T x T scores in memory: what the compiler
// option `attention: materialised` emits, and what tests compare the tiled one with.
// Shapes: qkv [B, T, KV, G+2, D], scores and probabilities [B, H, T, T], out [B, T, H, D]; f32 or
// bf16 each. Gradients of qkv go to their slice of d_qkv and leave the other slices alone.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace tessera::kernels {

// Workspace of each function below (except the softmax pair, which needs none).
int64_t attention_parts_workspace_bytes(int64_t t, int64_t d, int threads);

// scores[i,j] = scale * q[i] . k[j] for j <= i, minus infinity for j > i.
void attention_scores(const TensorView& qkv, float scale, const TensorView& scores, int threads,
                      void* workspace);
// d_q[i] = scale * sum_j d_scores[i,j] k[j],  d_k[j] = scale * sum_{i,g} d_scores[i,j] q[i].
// Writes the q and k slices of d_qkv. d_scores[i,j] is not read for j > i.
void attention_scores_grad(const TensorView& qkv, float scale, const TensorView& d_scores,
                           const TensorView& d_qkv, int threads, void* workspace);

// Rows of the last axis; y may alias x. A row must hold something finite.
void softmax(const TensorView& x, const TensorView& y);
// dx = y * (dy - sum(dy * y)); dx may alias dy.
void softmax_grad(const TensorView& y, const TensorView& dy, const TensorView& dx);

// out[i] = sum_{j<=i} probabilities[i,j] v[j].
void attention_mix(const TensorView& qkv, const TensorView& probabilities, const TensorView& out,
                   int threads, void* workspace);

// d_probabilities[i,j] = d_out[i] . v[j] (0 for j > i),  d_v[j] = sum_{i,g} p[i,j] d_out[i].
// Writes the v slice of d_qkv.
struct AttentionMixGrad {
  TensorView qkv, probabilities, d_out;
  TensorView d_probabilities, d_qkv;  // written
  int threads = 1;
};
void attention_mix_grad(const AttentionMixGrad& a, void* workspace);

}  // namespace tessera::kernels

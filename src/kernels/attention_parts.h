// Causal attention in its textbook parts, with the T x T scores in memory: what the compiler
// option `attention: unfused` emits, and what tests compare the tiled one with.
// Shapes: qkv [B, T, KV, G+2, D], scores and probabilities [B, H, T, T], out [B, T, H, D]; f32 or
// bf16 each. Gradients of qkv go to their slice of d_qkv and leave the other slices alone.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

// scores[i,j] = cap(scale * q[i] . k[j]) for j <= i, minus infinity for j > i and, with a window,
// for j <= i - window. cap is AttentionScope's.
struct AttentionScoresArgs {
  TensorView qkv;
  float scale = 1;
  TensorView scores;   // written
  int64_t window = 0;  // 0: none
  float soft_cap = 0;  // 0: none
};
void launch(Cpu, const Launch&, const AttentionScoresArgs&);
void launch(Gpu, const Launch&, const AttentionScoresArgs&);
int64_t workspace_bytes(Cpu, const AttentionScoresArgs&, int threads);

// d_q[i] = scale * sum_j d_scores[i,j] k[j],  d_k[j] = scale * sum_{i,g} d_scores[i,j] q[i].
// d_scores[i,j] is not read for j > i. With a soft cap, d_scores stands for d_scores times the
// slope of the cap.
struct AttentionScoresGradArgs {
  TensorView qkv;
  float scale = 1;
  TensorView d_scores;
  TensorView d_qkv;  // the q and k slices are written
  float soft_cap = 0;
};
void launch(Cpu, const Launch&, const AttentionScoresGradArgs&);
void launch(Gpu, const Launch&, const AttentionScoresGradArgs&);
int64_t workspace_bytes(Cpu, const AttentionScoresGradArgs&, int threads);
int64_t workspace_bytes(Gpu, const AttentionScoresGradArgs&, int threads);

// Rows of the last axis. A row must hold something finite. With sinks (kernels/attention.h), x is
// [B, H, T, S].
struct SoftmaxArgs {
  TensorView x;
  TensorView y;           // written; may alias x
  TensorView sinks = {};  // [H] f32, bf16 or f16; no data: none
  TensorView lse = {};    // [B, H, T] f32  written, with sinks: log of the sum of a row
};
void launch(Cpu, const Launch&, const SoftmaxArgs&);
void launch(Gpu, const Launch&, const SoftmaxArgs&);

// dx = y * (dy - sum(dy * y))
struct SoftmaxGradArgs {
  TensorView y, dy;
  TensorView dx;  // written; may alias dy
};
void launch(Cpu, const Launch&, const SoftmaxGradArgs&);
void launch(Gpu, const Launch&, const SoftmaxGradArgs&);

// out[i] = sum_{j<=i} probabilities[i,j] v[j].
struct AttentionMixArgs {
  TensorView qkv, probabilities;
  TensorView out;  // written
};
void launch(Cpu, const Launch&, const AttentionMixArgs&);
void launch(Gpu, const Launch&, const AttentionMixArgs&);
int64_t workspace_bytes(Cpu, const AttentionMixArgs&, int threads);

// d_probabilities[i,j] = d_out[i] . v[j] (0 for j > i),  d_v[j] = sum_{i,g} p[i,j] d_out[i].
struct AttentionMixGradArgs {
  TensorView qkv, probabilities, d_out;
  TensorView d_probabilities;  // written
  TensorView d_qkv;            // the v slice is written
};
void launch(Cpu, const Launch&, const AttentionMixGradArgs&);
void launch(Gpu, const Launch&, const AttentionMixGradArgs&);
int64_t workspace_bytes(Cpu, const AttentionMixGradArgs&, int threads);

}  // namespace tessera::kernels

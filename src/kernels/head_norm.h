// RMS norm of the queries and keys in packed heads (Henry et al. 2020), before RoPE. Values stay as
// they are.
//   y = x * r * g,  r = 1 / sqrt(m + epsilon),  g = gain (+ 1)
// m is the mean of the squares of a head; or, where there are `squares`, that of all queries or all
// keys of a token, whose sum of squares they hold.
// qkv, y, gains and gradients are each f32, bf16 or f16; sums are f32.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

struct HeadNorm {
  TensorView qkv;           // [B, T, KV, G+2, D]: in each group queries, a key, a value
  TensorView query_gain;    // [D]; with squares [KV, G, D]
  TensorView key_gain;      // [D]; with squares [KV, D]
  TensorView squares = {};  // [B, T, 2] f32: of queries, of keys; no data: means are over heads
  int64_t query_count = 0, key_count = 0;  // with squares: how many numbers each is a sum of
  float epsilon = 1e-6f;
  bool unit_offset = false;  // gains are without their 1
};

struct HeadNormArgs {
  HeadNorm norm;
  TensorView y;  // [B, T, KV, G+2, D]  written
};
void launch(Cpu, const Launch&, const HeadNormArgs&);
void launch(Gpu, const Launch&, const HeadNormArgs&);

//   dx = r (dy g - x r^2 mean(dy g x)) of a head; with squares r dy g
//   d_squares = -1/2 r^3 sum(dy g x) / count
//   dgain += sum dy x r,  in a fixed order
struct HeadNormGradArgs {
  HeadNorm norm;
  TensorView dy;              // [B, T, KV, G+2, D]
  TensorView dx;              // [B, T, KV, G+2, D]  written; may be dy
  TensorView d_query_gain;    // as the gain, f32, bf16 or f16  added to
  TensorView d_key_gain;      // likewise
  TensorView d_squares = {};  // [B, T, 2] f32  written; with squares
};
void launch(Cpu, const Launch&, const HeadNormGradArgs&);
void launch(Gpu, const Launch&, const HeadNormGradArgs&);
int64_t workspace_bytes(Cpu, const HeadNormGradArgs&, int threads);
int64_t workspace_bytes(Gpu, const HeadNormGradArgs&, int threads);

struct HeadSquaresArgs {
  TensorView qkv;      // [B, T, KV, G+2, D]
  TensorView squares;  // [B, T, 2] f32  written: sums of squares of queries and of keys
};
void launch(Cpu, const Launch&, const HeadSquaresArgs&);
void launch(Gpu, const Launch&, const HeadSquaresArgs&);

struct HeadSquaresGradArgs {
  TensorView qkv;        // [B, T, KV, G+2, D]
  TensorView d_squares;  // [B, T, 2] f32
  TensorView dx;         // [B, T, KV, G+2, D]: 2 qkv d_squares is added to queries and keys
};
void launch(Cpu, const Launch&, const HeadSquaresGradArgs&);
void launch(Gpu, const Launch&, const HeadSquaresGradArgs&);

}  // namespace tessera::kernels

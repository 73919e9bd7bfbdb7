// Rotary position embedding (Su et al. 2021) in the "rotate half" convention of GPT-NeoX and
// Hugging Face: in the first R dims of q and k, dims i and i + R/2 are rotated by the angle
// position * f_i, f_i = base^(-2i/R). v and the dims from R on stay as they are.
// For contexts longer than the original training context, frequencies are changed:
//   linear (Chen et al. 2023)     f_i / factor
//   llama3 (LLaMA 3.1)            with turns t_i = context * f_i / 2 pi that dim i makes over the
//     original context:  f_i / factor where t_i < low,  f_i where t_i > high,
//     (1 - s) f_i / factor + s f_i between, s = (t_i - low) / (high - low)
//   yarn (Peng et al. 2023)       (1 - r) f_i + r f_i / factor, r = (i - a) / (b - a) in [0, 1],
//     where pairs a and b make `high` and `low` turns over the original context
//   longrope (Ding et al. 2024)   1 / (dividers_i * base^(2i/R))
// Cosines and sines are times `magnitude`.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

enum class RotaryScaling : uint8_t { kUnscaled, kLinear, kLlama3, kYarn, kLongrope };

struct RotaryScale {
  RotaryScaling kind = RotaryScaling::kUnscaled;
  double factor = 1;
  double low = 1, high = 4;
  int64_t context = 8192;
  bool truncate = true;                   // yarn: a and b are whole numbers
  std::span<const double> dividers = {};  // longrope: R / 2 of them
};

struct Rotary {
  int64_t dims = 0;  // R: even, at most D
  double base = 10000.0;
  bool inverse = false;  // turns back: the gradient of the rotation
  RotaryScale scale = {};
  float magnitude = 1;
};
// The frequency of pair i in f32, rounded as Hugging Face does.
float rotary_frequency(const Rotary& r, int64_t i);

// A group holds its G query heads, then its key, then its value. The workspace holds the cosines
// and sines of every position, one row each.
struct RotaryArgs {
  TensorView qkv;        // [B, T, KV, G+2, D] f32, bf16 or f16  rotated in place
  TensorView positions;  // [B, T] i32
  Rotary how;
};
void launch(Cpu, const Launch&, const RotaryArgs&);
void launch(Gpu, const Launch&, const RotaryArgs&);
int64_t workspace_bytes(Cpu, const RotaryArgs&, int threads);
int64_t workspace_bytes(Gpu, const RotaryArgs&, int threads);

}  // namespace tessera::kernels

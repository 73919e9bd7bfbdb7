// Muon (Jordan 2024; Liu et al. 2025; torch.optim.Muon): momentum whose direction is made
// orthogonal, matrix by matrix. With g = scale * gradient and a matrix [R, C]:
//   m = momentum m + (1 - momentum) g
//   u = momentum m + (1 - momentum) g with Nesterov's rule, else m
//   X = the result of Newton–Schulz iterations (kernels/newton_schulz.h) that start from u
//   w = (1 - learning_rate * weight_decay) w - learning_rate * s * X,   s: base/newton_schulz.h
// A rank has contiguous ranges of a weight: it writes u of its own, and reads X of them. The moment
// is updated together with the weights, so a step that is skipped changes nothing.
#pragma once

#include "kernels/update.h"

namespace tessera::kernels {

// u of the ranges of one part of a weight. Elements of the ranges are counted in the part, as is
// `first`, the first element that `directions` has.
struct DirectionArgs {
  TensorView gradient, moment;  // [n] f32, bf16 or f16
  std::span<const UpdateRange> ranges = {};
  const double* scale = nullptr;  // factor of the gradient
  double momentum = 0;
  bool nesterov = false;
  TensorView directions;  // f32 or bf16; written: the elements of the ranges
  int64_t first = 0;
};
void launch(Cpu, const Launch&, const DirectionArgs&);
void launch(Gpu, const Launch&, const DirectionArgs&);

// y = x / max(sqrt(squares), epsilon), with the sum of the squares of x.
struct UnitNormArgs {
  TensorView x;                     // f32 or bf16
  const double* squares = nullptr;  // in device memory
  double epsilon = 0;
  TensorView y;  // written; the type and size of x
};
void launch(Cpu, const Launch&, const UnitNormArgs&);
void launch(Gpu, const Launch&, const UnitNormArgs&);

// Factors of the rows of queries and keys after the update (QK-clip; Value::clips in ir/value.h). A
// key/value head has `rows` rows of `columns` elements; its rows of a range are multiplied by
// min(1, limit / scores[head])^share. Row 0 of the part is row 0 of head 0.
struct RowClip {
  struct Range {
    int64_t first = 0, last = 0;
    double share = 1;
  };
  static constexpr int kMostRanges = 2;
  const float* scores = nullptr;  // [heads], at least 0, in device memory; nullptr: no limit
  double limit = 0;
  int64_t rows = 0, columns = 0;
  int count = 0;
  Range ranges[kMostRanges] = {};  // in ascending order
};

// Updates w and m of the ranges of one part; constants.beta1 is the momentum.
struct MuonArgs {
  Update update;
  UpdateConstants constants;
  UpdateNumbers numbers;
  TensorView directions;  // f32 or bf16: X of the part, from element `first` on
  int64_t first = 0;
  double direction_scale = 1;  // s
  RowClip clip;
};
void launch(Cpu, const Launch&, const MuonArgs&);
void launch(Gpu, const Launch&, const MuonArgs&);

}  // namespace tessera::kernels

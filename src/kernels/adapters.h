// Kernels of low-rank adapters: changes and scales of one part of the outputs of a GEMM, and the
// squared norms that DoRA divides by (Liu et al. 2024). Numbers are f32, bf16 or f16; sums are f32.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

// Columns of a row: `groups` groups of `width` columns. The columns [first, first + count) of each
// group are the part.
struct PartColumns {
  int64_t groups = 1, width = 1, first = 0, count = 1;

  // Returns the column of a row for the m-th column of the parts of all groups.
  constexpr int64_t column(int64_t m) const { return m / count * width + first + m % count; }
};

// The part of y += change.
struct AddPartArgs {
  TensorView change;  // [rows, groups · count]
  TensorView y;       // [rows, groups · width]  added to
  PartColumns part;
};
void launch(Cpu, const Launch&, const AddPartArgs&);
void launch(Gpu, const Launch&, const AddPartArgs&);

// y = x, with the part multiplied by magnitude / sqrt(squares). Outputs whose squares are 0, rows
// of zeros, have the factor 0 and add nothing to the gradient of the magnitude.
struct ScalePartArgs {
  TensorView x;          // [rows, groups · width]
  TensorView magnitude;  // [groups · count]
  TensorView squares;    // [groups · count] f32
  TensorView y;          // [rows, groups · width]  written; may be x
  PartColumns part;
};
void launch(Cpu, const Launch&, const ScalePartArgs&);
void launch(Gpu, const Launch&, const ScalePartArgs&);
int64_t workspace_bytes(Cpu, const ScalePartArgs&, int threads);

// d_magnitude += sum over rows of dy x of the part / sqrt(squares), in the order of rows.
struct ScalePartGradArgs {
  TensorView dy, x;        // [rows, groups · width]
  TensorView squares;      // [groups · count] f32
  TensorView d_magnitude;  // [groups · count] f32, bf16 or f16  added to
  PartColumns part;
};
void launch(Cpu, const Launch&, const ScalePartGradArgs&);
void launch(Gpu, const Launch&, const ScalePartGradArgs&);
int64_t workspace_bytes(Cpu, const ScalePartGradArgs&, int threads);

// squares[m] = sum over the inputs of (w[m] + scale b[m] a)^2, of the rows m of the part of w.
struct AdaptedSquaresArgs {
  TensorView w;        // [groups · width, inputs]
  TensorView a;        // [rank, inputs]
  TensorView b;        // [groups · count, rank]
  TensorView squares;  // [groups · count] f32  written
  float scale = 1;
  PartColumns part;
};
void launch(Cpu, const Launch&, const AdaptedSquaresArgs&);
void launch(Gpu, const Launch&, const AdaptedSquaresArgs&);

}  // namespace tessera::kernels

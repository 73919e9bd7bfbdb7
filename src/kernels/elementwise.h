// Elementwise kernels on flat ranges: zeros, copies of bytes, conversions, scaling and soft caps.
#pragma once

#include "kernels/kernel.h"
#include "tensor/gpu.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

struct ClearArgs {
  TensorView y;  // written: all bytes zero
};
void launch(Cpu, const Launch&, const ClearArgs&);
void launch(Gpu, const Launch&, const ClearArgs&);

struct CopyArgs {
  TensorView from;
  TensorView to;  // written: all of its bytes; no overlap
};
void launch(Cpu, const Launch&, const CopyArgs&);
void launch(Gpu, const Launch&, const CopyArgs&);

// Rows of bytes, each a fixed distance from the next.
using CopyRowsArgs = RowCopy;
void launch(Cpu, const Launch&, const CopyRowsArgs&);
void launch(Gpu, const Launch&, const CopyRowsArgs&);

// Converts between f32, bf16 and f16 (round to nearest, ties to even; NaN stays NaN), or copies.
struct CastArgs {
  TensorView x;
  TensorView y;  // written: x in y's dtype; same size as x; no overlap
};
void launch(Cpu, const Launch&, const CastArgs&);
void launch(Gpu, const Launch&, const CastArgs&);

// y = factor * x.
struct ScaleArgs {
  TensorView x;  // f32, bf16 or f16, as y; computed in f32
  float factor = 1;
  TensorView y;  // written; same size as x; may be x
};
void launch(Cpu, const Launch&, const ScaleArgs&);
void launch(Gpu, const Launch&, const ScaleArgs&);

// y = cap * tanh(x / cap).
struct SoftCapArgs {
  TensorView x;  // as ScaleArgs has it
  float cap = 1;
  TensorView y;  // written; same size as x; may be x
};
void launch(Cpu, const Launch&, const SoftCapArgs&);
void launch(Gpu, const Launch&, const SoftCapArgs&);

}  // namespace tessera::kernels

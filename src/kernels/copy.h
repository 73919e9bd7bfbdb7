// Copies of bytes.
#pragma once

#include "kernels/kernel.h"
#include "tensor/gpu.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

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

}  // namespace tessera::kernels

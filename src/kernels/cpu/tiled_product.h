// Our own matrix product, for what the library does badly or not at all: processors without
// AVX-512, bf16 operands on processors that multiply no bf16, and slices of packed tensors. Any
// strides, any mixture of types; internal to the kernels, used through Matmul.
//
// The method is that of Goto and van de Geijn (2008): blocks of B and A are copied into panels that
// suit the registers (widened to f32 on the way), and a register tile runs over k. Each thread owns
// a part of C and shares nothing, so the sum of an element does not depend on the other threads,
// and no one waits.
#pragma once

#include <cstdint>

#include "kernels/matmul.h"

namespace tessera::kernels {

class TiledProduct {
 public:
  // All leading dimensions and strides of `shape` are given (none is 0).
  TiledProduct(const MatmulShape& shape, const CpuFeatures& cpu, int threads);

  int64_t workspace_bytes() const;
  int64_t packed_bytes() const;  // of B in panels, in its own type
  void pack(const void* b, void* packed) const;
  // With `add` C keeps what it held.
  void run(const void* a, const void* b, void* c, void* workspace, bool add) const;

 private:
  MatmulShape shape_;
  int threads_;
  bool few_rows_;       // dot products of rows, nothing copied
  int rows_, columns_;  // of the register tile
  int64_t block_m_, block_n_, block_k_;
  int64_t grid_m_, grid_n_;  // parts of C, one a thread
  int64_t part_m_, part_n_;  // the largest part, in whole register tiles
};

}  // namespace tessera::kernels

// Our own GEMM, for cases in which oneDNN is slow or has no kernel: processors without AVX-512,
// bf16 operands on processors without bf16 multiplication, and slices of packed tensors. It
// supports any strides and any mixture of types. It is internal to the module and used through
// Matmul.
//
// The method is that of Goto and van de Geijn (2008): blocks of B and A are copied into panels that
// suit the registers (and widened to f32), and a register tile is summed over k. Each thread owns a
// part of C and shares nothing, so the sum of an element does not depend on other threads, and
// threads need not synchronize.
#pragma once

#include <cstdint>

#include "kernels/matmul.h"

namespace tessera::kernels {

// Returns true if A has so few rows, as in generation, that the time is that of reading B once, and
// packing B would read it twice. TiledProduct then computes dot products of rows: the bits of a row
// of C do not depend on the other rows, nor on their number, so a generated text does not depend on
// the texts that are generated with it.
bool has_few_rows(const MatmulShape& shape);

class TiledProduct {
 public:
  // All leading dimensions and strides of `shape` are given (none is 0).
  TiledProduct(const MatmulShape& shape, const CpuFeatures& cpu, int threads);

  int64_t workspace_bytes() const;
  int64_t packed_bytes() const;  // size of B in panels, in its own type
  void pack(const void* b, void* packed) const;
  // With `add`, adds to C instead of writing it.
  void run(const void* a, const void* b, void* c, void* workspace, bool add) const;

 private:
  MatmulShape shape_;
  int threads_;
  bool few_rows_;       // computes dot products of rows, without copies
  int rows_, columns_;  // size of the register tile
  int64_t block_m_, block_n_, block_k_;
  int64_t grid_m_, grid_n_;  // parts of C, one per thread
  int64_t part_m_, part_n_;  // size of the largest part, a multiple of the register tile
};

}  // namespace tessera::kernels

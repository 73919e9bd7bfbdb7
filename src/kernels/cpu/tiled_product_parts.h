// The interface between the outer and the inner loops of TiledProduct.
#pragma once

#include <cstdint>

#include "kernels/matmul.h"

namespace tessera::kernels {

struct RegisterTile {
  int rows, columns;
};

// Lines of elements: element p of line i is at data[i * line_stride + p * step].
struct PanelSource {
  const void* data;
  DType dtype;
  int64_t line_stride, step;

  template <class T>
  const T* at(int64_t element) const {
    return static_cast<const T*>(data) + element;
  }
};

// The part of a GEMM that one thread computes: rows [m_begin, m_end) × columns [n_begin, n_end).
struct PartOfProduct {
  const MatmulShape* shape = nullptr;
  bool add = false;  // adds to C instead of writing it
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  int64_t m_begin = 0, m_end = 0, n_begin = 0, n_end = 0;
  int64_t block_m = 0, block_n = 0, block_k = 0;
  float* workspace = nullptr;
};

}  // namespace tessera::kernels

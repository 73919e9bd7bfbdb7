// What the outer and the inner part of TiledProduct say to each other.
#pragma once

#include <cstdint>

#include "kernels/matmul.h"

namespace tessera::kernels {

struct RegisterTile {
  int rows, columns;
};

// Lines of elements: line i, element p at data[i * line_stride + p * step].
struct PanelSource {
  const void* data;
  DType dtype;
  int64_t line_stride, step;

  template <class T>
  const T* at(int64_t element) const {
    return static_cast<const T*>(data) + element;
  }
};

// What one thread computes: rows [m_begin, m_end) × columns [n_begin, n_end) of one product.
struct PartOfProduct {
  const MatmulShape* shape = nullptr;
  bool add = false;  // to what C holds
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  int64_t m_begin = 0, m_end = 0, n_begin = 0, n_end = 0;
  int64_t block_m = 0, block_n = 0, block_k = 0;
  float* workspace = nullptr;
};

}  // namespace tessera::kernels

// Pieces of tensors that a rank saves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "tensor/tensor.h"

namespace tessera::checkpoint {

// Fills elements [first, first + count) of a piece, in row-major order, into `out`.
using FillPiece = std::function<void(int64_t first, int64_t count, std::byte* out)>;

// A piece of state to save: `data` contains the box [begin, end) of the global value, row-major.
struct StateTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;                      // global
  std::vector<int64_t> begin, end;  // one entry per dimension; both empty: the whole value
  TensorView data;                  // the piece; its dtype is `dtype`
  FillPiece fill = {};              // if given, computes the piece; `data` then has no memory
};
// Returns the data of a piece. What `fill` computes is written to `memory`.
TensorView data_of(const StateTensor& piece, std::vector<std::byte>& memory);

}  // namespace tessera::checkpoint

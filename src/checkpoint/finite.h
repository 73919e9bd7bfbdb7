// Finds NaN and infinity in tensors that are read from or written to a checkpoint.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "checkpoint/checkpoint.h"

namespace tessera::checkpoint {

// The elements of a flat array that are not finite.
struct NonFinite {
  int64_t first = -1;  // index of the first such element; -1: all elements are finite
  int64_t count = 0;   // such elements
  std::string kind;    // of the first: "nan", "inf" or "-inf"
  explicit operator bool() const { return count > 0; }
};

// Searches `count` elements of type `dtype`. Integer types are always finite.
NonFinite find_non_finite(const std::byte* data, DType dtype, int64_t count);

// Adds the result for elements [offset, …) of the same array.
void add(NonFinite& total, const NonFinite& found, int64_t offset);

// "'layer0.attn.qkv.weight' has nan at [0, 2, 5, 7]; 12 of its 4,096 elements are not finite".
// `first` counts elements of the global value of shape `shape`.
std::string describe(const NonFinite& found, const std::string& name, const Shape& shape);

// Throws NumericError if `view`, which was read from the tensor `name`, holds NaN or infinity. The
// message describes the whole tensor as the checkpoint stores it.
void require_finite(CheckpointReader& checkpoint, const std::string& name, const TensorView& view);

// Throws NumericError if any tensor of the checkpoint holds NaN or infinity. The message describes
// the first by name, and counts such tensors.
void require_finite(CheckpointReader& checkpoint);

}  // namespace tessera::checkpoint

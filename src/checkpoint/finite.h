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
  int64_t count = 0;   // number of such elements
  std::string kind;    // kind of the first one: "nan", "inf" or "-inf"
  explicit operator bool() const { return count > 0; }
};

// Searches `count` elements of type `dtype`. Integer types are always finite.
NonFinite find_non_finite(const std::byte* data, DType dtype, int64_t count);

// Adds `found`, the result for the elements from `offset` on, to the result for the same array.
void add(NonFinite& total, const NonFinite& found, int64_t offset);

// Returns "'layer0.attn.qkv.weight' has nan at [0, 2, 5, 7]; 12 of its 4,096 elements are not
// finite". `found.first` is an index into the global value, which has shape `shape`.
std::string describe(const NonFinite& found, const std::string& name, const Shape& shape);

// Throws NumericError if `view`, which was read from the tensor `name`, contains NaN or infinity.
// The message describes the whole stored tensor.
void require_finite(CheckpointReader& checkpoint, const std::string& name, const TensorView& view);

// Throws NumericError if any tensor of the checkpoint contains NaN or infinity. The message
// describes the first such tensor by name and has the number of all of them.
void require_finite(CheckpointReader& checkpoint);

}  // namespace tessera::checkpoint

// What differs between two checkpoints, tensor by tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace tessera::checkpoint {

struct TensorDifference {
  std::string name;
  std::string what;      // "only in the first", "f32 [2, 3] and f32 [3, 2]", or empty: values
  int64_t elements = 0;  // that differ
  double largest = 0;    // |a − b|; infinite where one side is no number
  double relative = 0;   // norm of a − b over norm of a, in f64; inf for a = 0
};

// Empty if all tensors are equal to the last bit. Reads both checkpoints; holds a few MiB.
std::vector<TensorDifference> compare(CheckpointReader& a, CheckpointReader& b);

}  // namespace tessera::checkpoint

// Compares two checkpoints tensor by tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace tessera::checkpoint {

struct TensorDifference {
  std::string name;
  std::string what;      // "only in the first", "f32 [2, 3] and f32 [3, 2]"; empty: values compared
  int64_t elements = 0;  // number of elements that differ
  double largest = 0;    // largest |a − b|; infinite if one of the two is NaN
  double relative = 0;   // norm of a − b divided by the norm of a, in f64; inf for a = 0
  std::string types = "";  // "f32 and bf16": the floating-point types, if they differ
};

// Returns the tensors that differ, also if only in type; empty if all are equal bit for bit. Holds
// a few MiB in memory, whatever the size of the checkpoints.
std::vector<TensorDifference> compare(CheckpointReader& a, CheckpointReader& b);

}  // namespace tessera::checkpoint

// Initial weights of one rank: its shard of a global value that is the same for every layout.
#pragma once

#include <functional>

#include "ir/mesh.h"
#include "tensor/tensor.h"

namespace tessera::runtime {

// A range of elements that is contiguous both in the global value and in a rank's shard of it.
struct ContiguousRange {
  int64_t global = 0, local = 0, elements = 0;
};

// Visits the ranges that make up the box, in increasing order. The shard has the extents `local`.
void each_run(const Shape& global, const Shape& local, const GlobalBox& box,
              const std::function<void(const ContiguousRange&)>& visit);

// Writes the shard. Element e of the global value is the e-th normally distributed number of the
// key's random sequence, or the constant. Elements of the shard outside the box (padding) are zero.
void initialize_part(const TensorView& part, const Shape& global, const GlobalBox& box,
                     const Initial& initial, uint64_t key, int threads);

}  // namespace tessera::runtime

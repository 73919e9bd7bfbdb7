// Fresh weights of one rank: its part of the same global value on any layout.
#pragma once

#include <functional>

#include "ir/mesh.h"
#include "tensor/tensor.h"

namespace tessera::runtime {

// A stretch of elements that follow each other in the global value and in a rank's part of it.
struct Stretch {
  int64_t global = 0, local = 0, elements = 0;
};

// Those that make up the box, of a part with extents `local`, by rising place.
void each_stretch(const Shape& global, const Shape& local, const Extents& box,
                  const std::function<void(const Stretch&)>& visit);

// Element e of the global value is number e of the key's normal numbers, or the constant; what the
// part has beyond the box (padding) is zero.
void initialise_part(const TensorView& part, const Shape& global, const Extents& box,
                     const Initial& initial, uint64_t key, int threads);

}  // namespace tessera::runtime

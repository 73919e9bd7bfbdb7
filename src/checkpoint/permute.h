// A dense array with its dimensions in another order, a stretch at a time: what a transpose needs
// when neither side should be held in memory twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/shape.h"

namespace tessera {

// Let `from` be a row-major array of the extents `shape`, and P the array with
//   P[i_0, …, i_n] = from[j_0, …, j_n],  j_axes[k] = i_k     (numpy's transpose(axes)).
// Writes the elements [first, first + count) of P, in row-major order, to `out`.
void copy_permuted(const std::byte* from, const Shape& shape, std::span<const int> axes,
                   int64_t element_bytes, int64_t first, int64_t count, std::byte* out);

}  // namespace tessera

// A tensor of one file as a piece of another: dimensions and element type change on the way.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace tessera {

// Fills with from.transpose(axes), converted to `to_type`. `from`, an array of `shape` and
// `from_type`, must outlive what is returned; it need not be aligned.
FillPiece transposed(std::span<const std::byte> from, DType from_type, const Shape& shape,
                     std::vector<int> axes, DType to_type);

// Fills with several one after another, of `elements` elements each, which have `bytes` bytes in
// what is filled.
FillPiece joined(std::vector<FillPiece> parts, std::vector<int64_t> elements, int64_t bytes);

}  // namespace tessera

// Boxes of row-major arrays, and copies between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/shape.h"

namespace tessera {

// The elements i with begin[d] <= i[d] < end[d] in every dimension d.
struct Box {
  std::vector<int64_t> begin, end;

  Shape extents() const;
  int64_t elements() const { return extents().elements(); }
  bool operator==(const Box&) const = default;
};

Box whole_box(const Shape& shape);
bool is_inside(const Box& box, const Shape& shape);  // ranks agree, 0 <= begin <= end <= extent
Box intersection(const Box& a, const Box& b);        // an empty one has no elements

// Copies the elements of `common` between two dense arrays that hold the boxes `from_box` and
// `to_box` of the same global value; `common` lies in both.
void copy_box(const Box& common, const Box& from_box, const std::byte* from, const Box& to_box,
              std::byte* to, int64_t element_bytes);

// Whether the boxes cover `shape` once and only once.
bool tile(std::span<const Box> boxes, const Shape& shape);

// The flat row-major range [first, last) of an array as the fewest boxes, in order: at most
// 2·rank − 1 of them. (What one shard of a flat parameter owns.)
std::vector<Box> boxes_of_range(const Shape& shape, int64_t first, int64_t last);

}  // namespace tessera

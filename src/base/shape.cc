// Boxes of row-major arrays: intersection, copy, the test that boxes tile a shape, and the division
// of a flat range into boxes. Checkpoints of all layouts are read and written with these functions.
#include "base/shape.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tessera {

std::string to_string(const Shape& s) { return fmt::format("[{}]", fmt::join(s.dims(), ", ")); }

Shape Box::extents() const {
  std::vector<int64_t> n(begin.size());
  for (size_t d = 0; d < n.size(); ++d) n[d] = std::max<int64_t>(end[d] - begin[d], 0);
  return Shape(std::move(n));
}

Box whole_box(const Shape& shape) { return {std::vector<int64_t>(shape.rank(), 0), shape.dims()}; }

bool is_inside(const Box& box, const Shape& shape) {
  const auto rank = static_cast<size_t>(shape.rank());
  if (box.begin.size() != rank || box.end.size() != rank) return false;
  for (size_t d = 0; d < rank; ++d)
    if (box.begin[d] < 0 || box.begin[d] > box.end[d] || box.end[d] > shape.dims()[d]) return false;
  return true;
}

Box intersection(const Box& a, const Box& b) {
  Box c = a;
  for (size_t d = 0; d < c.begin.size(); ++d) {
    c.begin[d] = std::max(a.begin[d], b.begin[d]);
    c.end[d] = std::max(c.begin[d], std::min(a.end[d], b.end[d]));
  }
  return c;
}

namespace {

// Returns the offset of element `at` of the global value in a dense array that contains `box`.
int64_t flat_index(const Box& box, const std::vector<int64_t>& at) {
  int64_t i = 0;
  for (size_t d = 0; d < at.size(); ++d)
    i = i * (box.end[d] - box.begin[d]) + (at[d] - box.begin[d]);
  return i;
}

// Returns the number of outer dimensions that copy_box has to iterate over. Trailing dimensions
// that `common` spans completely in both boxes are contiguous in both arrays. So is the next outer
// dimension, even if `common` spans only a part of it. One memcpy copies all of these.
size_t outer_dimensions(const Box& common, const Box& a, const Box& b) {
  size_t d = common.begin.size();
  const auto spans = [&](const Box& box, size_t i) {
    return box.begin[i] == common.begin[i] && box.end[i] == common.end[i];
  };
  while (d > 0 && spans(a, d - 1) && spans(b, d - 1)) --d;
  return d > 0 ? d - 1 : 0;
}

}  // namespace

void copy_box(const Box& common, const Box& from_box, const std::byte* from, const Box& to_box,
              std::byte* to, int64_t element_bytes) {
  if (common.elements() == 0) return;
  const size_t outer = outer_dimensions(common, from_box, to_box);
  const Shape extents = common.extents();
  const int64_t run = extents.product(static_cast<int>(outer), extents.rank());
  std::vector<int64_t> at = common.begin;
  for (;;) {
    std::memcpy(to + flat_index(to_box, at) * element_bytes,
                from + flat_index(from_box, at) * element_bytes, run * element_bytes);
    // Advances the outer indices like an odometer, last dimension first.
    size_t d = outer;
    while (d > 0 && ++at[d - 1] == common.end[d - 1]) {
      at[d - 1] = common.begin[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

namespace {

bool meet(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.begin.size(); ++d)
    if (a.begin[d] >= b.end[d] || b.begin[d] >= a.end[d]) return false;
  return true;
}

// Returns true if no two of these boxes, none of which is empty, have an element in common.
//
// The boxes are sorted by their interval in dimension d and divided into groups whose intervals
// overlap. Boxes of different groups are disjoint. If all boxes of a group have the same interval,
// the group is decided by the later dimensions alone, so a grid costs O(n log n) per dimension.
// Other groups are compared pair by pair; above the limit the answer is false, which a caller
// treats as an invalid file.
bool disjoint(std::span<const Box*> boxes, size_t d) {
  constexpr size_t kMostPairwise = 4096;
  if (boxes.size() <= 1) return true;
  if (d == boxes[0]->begin.size()) return false;  // the same box twice
  std::sort(boxes.begin(), boxes.end(), [&](const Box* a, const Box* b) {
    return std::pair(a->begin[d], a->end[d]) < std::pair(b->begin[d], b->end[d]);
  });
  for (size_t from = 0, to = 0; from < boxes.size(); from = to) {
    int64_t end = boxes[from]->end[d];
    bool alike = true;
    for (to = from + 1; to < boxes.size() && boxes[to]->begin[d] < end; ++to) {
      alike = alike && boxes[to]->begin[d] == boxes[from]->begin[d] && boxes[to]->end[d] == end;
      end = std::max(end, boxes[to]->end[d]);
    }
    const std::span<const Box*> group = boxes.subspan(from, to - from);
    if (alike) {
      if (!disjoint(group, d + 1)) return false;
      continue;
    }
    if (group.size() > kMostPairwise) return false;
    for (size_t i = 0; i < group.size(); ++i)
      for (size_t j = i + 1; j < group.size(); ++j)
        if (meet(*group[i], *group[j])) return false;
  }
  return true;
}

}  // namespace

bool tile(std::span<const Box> boxes, const Shape& shape) {
  const int64_t all = shape.elements();
  int64_t covered = 0;
  std::vector<const Box*> filled;
  for (const Box& box : boxes) {
    if (!is_inside(box, shape)) return false;
    // This also prevents an overflow of `covered` for arbitrary boxes of a damaged file.
    const int64_t elements = box.elements();
    if (elements > all - covered) return false;
    covered += elements;
    if (elements > 0) filled.push_back(&box);
  }
  if (covered != all) return false;
  if (shape.rank() == 0) return boxes.size() == 1;
  // Disjoint boxes that have as many elements as the shape cover it.
  return disjoint(filled, 0);
}

std::vector<Box> boxes_of_range(const Shape& shape, int64_t first, int64_t last) {
  CHECK(0 <= first && first <= last && last <= shape.elements(), "range [{}, {}) of {}", first,
        last, to_string(shape));
  std::vector<Box> boxes;
  while (first < last) {
    // Copies the largest block of whole trailing dimensions that begins at `first` and fits, then
    // repeats it along the next outer dimension as often as it fits. Greedy is optimal here: blocks
    // grow up to the middle of the range and shrink after it, by one dimension at a time.
    int d = shape.rank();
    int64_t block = 1;
    while (d > 0 && first % (block * shape[d - 1]) == 0 && block * shape[d - 1] <= last - first)
      block *= shape[--d];
    Box box = whole_box(shape);
    // Converts the block's number to the indices of the outer dimensions 0 to d - 1.
    int64_t rest = first / block, count = 1;
    for (int i = d - 1; i >= 0; --i) {
      const int64_t at = rest % shape[i];
      rest /= shape[i];
      if (i == d - 1) count = std::min((last - first) / block, shape[i] - at);
      box.begin[i] = at;
      box.end[i] = at + (i == d - 1 ? count : 1);
    }
    boxes.push_back(std::move(box));
    first += count * block;
  }
  return boxes;
}

}  // namespace tessera

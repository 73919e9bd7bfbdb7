// Shapes of dense row-major arrays, boxes within them, and copies between boxes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace tessera {

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t operator[](int d) const { return dims_[d < 0 ? d + rank() : d]; }
  int64_t& operator[](int d) { return dims_[d < 0 ? d + rank() : d]; }
  const std::vector<int64_t>& dims() const { return dims_; }

  int64_t elements() const { return product(0, rank()); }
  int64_t product(int from, int to) const {  // product of dimensions [from, to)
    int64_t n = 1;
    for (int d = from; d < to; ++d) n *= (*this)[d];
    return n;
  }
  bool operator==(const Shape&) const = default;

 private:
  std::vector<int64_t> dims_;
};

std::string to_string(const Shape& s);  // "[4, 512, 768]"

// ---- Boxes of row-major arrays, and copies between them.

// The elements i with begin[d] <= i[d] < end[d] in every dimension d.
struct Box {
  std::vector<int64_t> begin, end;

  Shape extents() const;
  int64_t elements() const { return extents().elements(); }
  bool operator==(const Box&) const = default;
};

Box whole_box(const Shape& shape);
bool is_inside(const Box& box, const Shape& shape);  // equal ranks, 0 <= begin <= end <= extent
Box intersection(const Box& a, const Box& b);        // without elements if a and b are disjoint

// Copies the elements of `common` between two dense arrays that contain the boxes `from_box` and
// `to_box` of the same global value. Both boxes contain `common`.
void copy_box(const Box& common, const Box& from_box, const std::byte* from, const Box& to_box,
              std::byte* to, int64_t element_bytes);

// Returns whether the boxes cover each element of `shape` exactly once.
bool tile(std::span<const Box> boxes, const Shape& shape);

// Returns the flat row-major range [first, last) of an array, such as the shard of a flat
// parameter, as the minimum number of boxes, in order: at most 2·rank − 1.
std::vector<Box> boxes_of_range(const Shape& shape, int64_t first, int64_t last);

}  // namespace tessera

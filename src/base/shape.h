// The extents of a dense, row-major array, outermost first. A scalar has no dimensions.
#pragma once

#include <cstdint>
#include <initializer_list>
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
  int64_t product(int from, int to) const {  // of dimensions [from, to)
    int64_t n = 1;
    for (int d = from; d < to; ++d) n *= (*this)[d];
    return n;
  }
  bool operator==(const Shape&) const = default;

 private:
  std::vector<int64_t> dims_;
};

std::string to_string(const Shape& s);  // "[4, 512, 768]"

}  // namespace tessera

// A list of at most N elements with inline storage, for the arguments of kernels.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>

#include "base/require.h"

namespace tessera::kernels {

template <class T, size_t N>
class UpTo {
 public:
  UpTo() = default;
  UpTo(std::initializer_list<T> elements) {
    for (const T& x : elements) push_back(x);
  }

  void push_back(const T& x) {
    require(size_ < N, "a list of arguments is longer than the kernel allows");
    elements_[size_++] = x;
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* begin() const { return elements_.data(); }
  const T* end() const { return elements_.data() + size_; }
  const T& operator[](size_t i) const { return elements_[i]; }

 private:
  std::array<T, N> elements_;
  size_t size_ = 0;
};

}  // namespace tessera::kernels

// Kernels that are prepared once per shape and shared by all ops of that shape.
#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace tessera {

template <class Shape, class T>
class ShapeCache {
 public:
  // Returns the kernel of the shape; make() returns a new one, as a unique_ptr. It lives as long as
  // the cache.
  template <class Make>
  const T& get(const Shape& shape, const Make& make) {
    for (const auto& [known, kernel] : all_)
      if (known == shape) return *kernel;
    all_.emplace_back(shape, make());
    return *all_.back().second;
  }

 private:
  std::vector<std::pair<Shape, std::unique_ptr<T>>> all_;
};

}  // namespace tessera

// Kernels that are prepared once per shape and shared by all ops of that shape.
#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace tessera {

template <class Shape, class T>
class ShapeCache {
 public:
  // Returns the kernel of the shape, which lives as long as the cache. make() returns a new one, as
  // a unique_ptr; where it returns nullptr, so does this.
  template <class Make>
  const T* get(const Shape& shape, const Make& make) {
    for (const auto& [known, kernel] : all_)
      if (known == shape) return kernel.get();
    std::unique_ptr<T> made = make();
    if (made == nullptr) return nullptr;
    return all_.emplace_back(shape, std::move(made)).second.get();
  }

 private:
  std::vector<std::pair<Shape, std::unique_ptr<T>>> all_;
};

}  // namespace tessera

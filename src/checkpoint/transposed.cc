#include "checkpoint/transposed.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/convert.h"
#include "checkpoint/permute.h"

namespace tessera {

FillPiece transposed(std::span<const std::byte> from, DType from_type, const Shape& shape,
                     std::vector<int> axes, DType to_type) {
  const int64_t bytes = size_of(from_type);
  CHECK(std::ssize(from) == shape.elements() * bytes, "{} bytes for {}", from.size(),
        to_string(shape));
  bool moves = false;
  for (size_t k = 0; k < axes.size(); ++k) moves |= axes[k] != static_cast<int>(k);
  if (!moves)
    return [=](int64_t first, int64_t count, std::byte* out) {
      convert(from.data() + first * bytes, from_type, out, to_type, count);
    };
  return [=, order = std::move(axes)](int64_t first, int64_t count, std::byte* out) {
    if (from_type == to_type) {
      copy_permuted(from.data(), shape, order, bytes, first, count, out);
      return;
    }
    std::vector<std::byte> chunk(count * bytes);
    copy_permuted(from.data(), shape, order, bytes, first, count, chunk.data());
    convert(chunk.data(), from_type, out, to_type, count);
  };
}

FillPiece joined(std::vector<FillPiece> parts, std::vector<int64_t> elements, int64_t bytes) {
  CHECK(parts.size() == elements.size(), "{} parts, {} sizes", parts.size(), elements.size());
  if (parts.size() == 1) return parts[0];
  return [=](int64_t first, int64_t count, std::byte* out) {
    int64_t begin = 0;
    for (size_t i = 0; i < parts.size(); begin += elements[i++]) {
      const int64_t from = std::max(first, begin);
      const int64_t to = std::min(first + count, begin + elements[i]);
      if (from < to) parts[i](from - begin, to - from, out + (from - first) * bytes);
    }
  };
}

}  // namespace tessera

// Transposes a dense array of any rank, one flat range of the result at a time. Along the last
// dimension of the result the source has a constant stride, so each row is one strided gather.
#include "checkpoint/permute.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

// A fixed size lets the compiler turn memcpy into one load and one store.
template <int64_t kBytes>
void gather(const std::byte* from, int64_t stride, int64_t n, std::byte* out) {
  for (int64_t i = 0; i < n; ++i) std::memcpy(out + i * kBytes, from + i * stride, kBytes);
}

// Copies n elements that are `stride` bytes apart.
void gather_any(const std::byte* from, int64_t stride, int64_t n, int64_t bytes, std::byte* out) {
  if (stride == bytes) {
    std::memcpy(out, from, n * bytes);
    return;
  }
  switch (bytes) {
    case 1:
      return gather<1>(from, stride, n, out);
    case 2:
      return gather<2>(from, stride, n, out);
    case 4:
      return gather<4>(from, stride, n, out);
    default:
      CHECK(bytes == 8, "elements of {} bytes", bytes);
      return gather<8>(from, stride, n, out);
  }
}

}  // namespace

void copy_permuted(const std::byte* from, const Shape& shape, std::span<const int> axes,
                   int64_t element_bytes, int64_t first, int64_t count, std::byte* out) {
  const auto rank = static_cast<size_t>(shape.rank());
  CHECK(axes.size() == rank, "{} axes for {}", axes.size(), to_string(shape));
  if (rank == 0 || count == 0) {
    if (count > 0) std::memcpy(out, from, element_bytes);
    return;
  }
  std::vector<int64_t> extents(rank), strides(rank);  // of P, in bytes of `from`
  for (size_t k = 0; k < rank; ++k) {
    extents[k] = shape[axes[k]];
    strides[k] = shape.product(axes[k] + 1, shape.rank()) * element_bytes;
  }
  const int64_t row = extents.back();
  while (count > 0) {
    const int64_t column = first % row, n = std::min(row - column, count);
    const std::byte* at = from + column * strides.back();
    // The offset of the row in the source: its number, decomposed into indices, last dimension
    // first.
    int64_t rest = first / row;
    for (size_t k = rank - 1; k-- > 0; rest /= extents[k]) at += rest % extents[k] * strides[k];
    gather_any(at, strides.back(), n, element_bytes, out);
    out += n * element_bytes;
    first += n;
    count -= n;
  }
}

}  // namespace tessera

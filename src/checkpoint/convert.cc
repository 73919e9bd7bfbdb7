// Converts element types through float, element by element, with loads that need no alignment:
// tensors of mapped files begin at any byte. The source type is a template argument, so that the
// inner loop has no branch on it.
#include "checkpoint/convert.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace tessera::checkpoint {

uint16_t f16_from_float(float x) { return F16(x).bits; }

float float_from_f16(uint16_t bits) {
  F16 half;
  half.bits = bits;
  return static_cast<float>(half);
}

bool is_float(DType t) {
  return t == DType::kF32 || t == DType::kBF16 || t == DType::kF16 || t == DType::kF64;
}

namespace {

template <class T>
T load(const std::byte* at) {
  T x;
  std::memcpy(&x, at, sizeof(T));
  return x;
}

// All formats but f64 are subsets of f32, so a conversion through f32 rounds once. From f64 to a
// 16-bit type it may round twice.
float load_float(DType type, const std::byte* from, int64_t i) {
  if (type == DType::kF32) return load<float>(from + i * 4);
  if (type == DType::kF64) return static_cast<float>(load<double>(from + i * 8));
  const auto bits = load<uint16_t>(from + i * 2);
  if (type == DType::kF16) return float_from_f16(bits);
  // bf16 is the upper half of an f32.
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

template <DType kFrom>
void convert_from(const std::byte* from, std::byte* to, DType to_type, int64_t n) {
  const auto each = [&]<class T>(T (*make)(float)) {
    for (int64_t i = 0; i < n; ++i) {
      const T x = make(load_float(kFrom, from, i));
      std::memcpy(to + i * sizeof(T), &x, sizeof(T));
    }
  };
  switch (to_type) {
    case DType::kF32:
      each(+[](float x) { return x; });
      return;
    case DType::kBF16:
      each(+[](float x) { return BF16(x).bits; });
      return;
    case DType::kF16:
      each(+[](float x) { return f16_from_float(x); });
      return;
    case DType::kF64:
      each(+[](float x) { return double{x}; });
      return;
    default:
      CHECK(false, "no conversion to {}", name_of(to_type));
  }
}

}  // namespace

void convert(const std::byte* from, DType from_type, std::byte* to, DType to_type, int64_t n) {
  if (from_type == to_type) {
    if (n > 0) std::memcpy(to, from, n * size_of(from_type));
    return;
  }
  CHECK(is_float(from_type) && is_float(to_type), "no conversion from {} to {}", name_of(from_type),
        name_of(to_type));
  switch (from_type) {
    case DType::kF32:
      return convert_from<DType::kF32>(from, to, to_type, n);
    case DType::kBF16:
      return convert_from<DType::kBF16>(from, to, to_type, n);
    case DType::kF16:
      return convert_from<DType::kF16>(from, to, to_type, n);
    default:
      return convert_from<DType::kF64>(from, to, to_type, n);
  }
}

// ---- Transposes a dense array of any rank, one flat range of the result at a time. Along the last
// dimension of the result the source has a constant stride, so each row is one strided gather.

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
  const size_t rank = shape.rank();
  CHECK(axes.size() == rank, "{} axes for {}", axes.size(), to_string(shape));
  if (rank == 0 || count == 0) {
    if (count > 0) std::memcpy(out, from, element_bytes);
    return;
  }
  std::vector<int64_t> extents(rank), strides(rank);  // extents of P; strides in bytes of `from`
  for (size_t k = 0; k < rank; ++k) {
    extents[k] = shape[axes[k]];
    strides[k] = shape.product(axes[k] + 1, shape.rank()) * element_bytes;
  }
  const int64_t row = extents.back();
  while (count > 0) {
    const int64_t column = first % row, n = std::min(row - column, count);
    const std::byte* at = from + column * strides.back();
    // The offset of the row in the source: the row number is decomposed into indices, last
    // dimension first.
    int64_t rest = first / row;
    for (size_t k = rank - 1; k-- > 0; rest /= extents[k]) at += rest % extents[k] * strides[k];
    gather_any(at, strides.back(), n, element_bytes, out);
    out += n * element_bytes;
    first += n;
    count -= n;
  }
}

FillPiece transposed(std::span<const std::byte> from, DType from_type, const Shape& shape,
                     std::vector<int> axes, DType to_type) {
  const int64_t bytes = size_of(from_type);
  CHECK(std::ssize(from) == shape.elements() * bytes, "{} bytes for {}", from.size(),
        to_string(shape));
  bool moves = false;
  for (int k = 0; k < std::ssize(axes); ++k) moves |= axes[k] != k;
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

void release_pages(std::span<const std::byte> mapped) {
  const uintptr_t page = ::sysconf(_SC_PAGESIZE);
  const auto at = reinterpret_cast<uintptr_t>(mapped.data());
  const uintptr_t begin = (at + page - 1) / page * page, end = (at + mapped.size()) / page * page;
  // Only a hint: if the system ignores it, the pages stay until their memory is needed.
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace tessera::checkpoint

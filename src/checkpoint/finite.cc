// Finds NaN and infinity by testing exponent bits: all ones mean NaN or infinity in every IEEE
// format. In each block such elements are first counted, in a loop without branches that the
// compiler vectorizes; the position is searched only in the first block that has one.
#include "checkpoint/finite.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/count.h"
#include "base/shape.h"
#include "checkpoint/convert.h"

namespace tessera::checkpoint {
namespace {

constexpr int64_t kBlock = 4096;             // elements counted at a time
constexpr int64_t kSlab = int64_t{1} << 20;  // elements read from a checkpoint at a time

template <class Bits>
Bits bits_at(const std::byte* data, int64_t i) {
  Bits bits;
  std::memcpy(&bits, data + i * sizeof(Bits), sizeof(Bits));
  return bits;
}

// An IEEE 754 number is infinite or NaN if and only if all bits of its exponent are set. The loop
// has no branch, so the compiler vectorizes it.
template <class Bits>
int64_t count_of(const std::byte* data, Bits exponent, int64_t begin, int64_t end) {
  int64_t count = 0;
  for (int64_t i = begin; i < end; ++i)
    count += (bits_at<Bits>(data, i) & exponent) == exponent ? 1 : 0;
  return count;
}

// Counts block by block; only the first block that contains one is searched for its position.
template <class Bits>
NonFinite find(const std::byte* data, Bits exponent, int64_t n) {
  NonFinite found;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    const int64_t count = count_of(data, exponent, begin, end);
    if (count > 0 && found.count == 0) {
      found.first = begin;
      while ((bits_at<Bits>(data, found.first) & exponent) != exponent) ++found.first;
    }
    found.count += count;
  }
  return found;
}

std::string kind_of(const std::byte* element, DType dtype) {
  double x = 0;
  convert(element, dtype, reinterpret_cast<std::byte*>(&x), DType::kF64, 1);
  return std::isnan(x) ? "nan" : (x > 0 ? "inf" : "-inf");
}

// Returns the flat index, in an array of shape `shape`, of element `i` of the box.
int64_t index_in(const Shape& shape, const Box& box, int64_t i) {
  int64_t flat = 0, scale = 1;
  const Shape extents = box.extents();
  for (int d = shape.rank() - 1; d >= 0; --d) {
    const size_t at = d;
    // Mixed radix: the last dimension varies fastest, in the box and in the array.
    flat += (box.begin[at] + i % extents[d]) * scale;
    i /= extents[d];
    scale *= shape[d];
  }
  return flat;
}

// Reads a tensor in slabs, which are flat ranges and therefore a few boxes each.
NonFinite find_in(CheckpointReader& checkpoint, const StoredTensor& t) {
  NonFinite found;
  if (!is_float(t.dtype)) return found;
  std::vector<std::byte> slab;
  for (int64_t at = 0; at < t.shape.elements(); at += kSlab)
    for (const Box& box : boxes_of_range(t.shape, at, std::min(at + kSlab, t.shape.elements()))) {
      slab.resize(box.elements() * size_of(t.dtype));
      checkpoint.read(t.name, box.begin, box.end, {slab.data(), t.dtype, box.extents()});
      const NonFinite here = find_non_finite(slab.data(), t.dtype, box.elements());
      if (here && !found) {
        found.first = index_in(t.shape, box, here.first);
        found.kind = here.kind;
      }
      found.count += here.count;
    }
  return found;
}

}  // namespace

NonFinite find_non_finite(const std::byte* data, DType dtype, int64_t count) {
  NonFinite found;
  // The mask of exponent bits of each format.
  if (dtype == DType::kF32) found = find<uint32_t>(data, 0x7f800000u, count);
  if (dtype == DType::kF64) found = find<uint64_t>(data, 0x7ff0000000000000u, count);
  if (dtype == DType::kBF16) found = find<uint16_t>(data, 0x7f80u, count);
  if (dtype == DType::kF16) found = find<uint16_t>(data, 0x7c00u, count);
  if (found) found.kind = kind_of(data + found.first * size_of(dtype), dtype);
  return found;
}

void add(NonFinite& total, const NonFinite& found, int64_t offset) {
  if (found && !total) {
    total.first = offset + found.first;
    total.kind = found.kind;
  }
  total.count += found.count;
}

std::string describe(const NonFinite& found, const std::string& name, const Shape& shape) {
  std::string index;
  int64_t rest = found.first, scale = shape.elements();
  for (int d = 0; d < shape.rank(); ++d) {
    scale /= shape[d];
    index += fmt::format("{}{}", d > 0 ? ", " : "", rest / scale);
    rest %= scale;
  }
  return fmt::format("'{}' has {} at [{}]; {} of its {} elements {} not finite", name, found.kind,
                     index, format_count(found.count), format_count(shape.elements()),
                     found.count == 1 ? "is" : "are");
}

void require_finite(CheckpointReader& checkpoint, const std::string& name, const TensorView& view) {
  // The values in memory may have another type than the stored ones, so the cause can be an
  // overflow in the conversion. The stored tensor decides between the two.
  const NonFinite here = find_non_finite(view.as<std::byte>(), view.dtype, view.elements());
  if (!here) return;
  const StoredTensor* stored = checkpoint.find(name);
  const NonFinite found = stored ? find_in(checkpoint, *stored) : NonFinite();
  if (!found)
    throw NumericError("{}: '{}' exceeds the range of {}. Use a wider precision.",
                       checkpoint.folder().string(), name, name_of(view.dtype));
  throw NumericError("{}: {}. Use another checkpoint.", checkpoint.folder().string(),
                     describe(found, name, stored->shape));
}

void require_finite(CheckpointReader& checkpoint) {
  std::string first;
  int64_t tensors = 0;
  for (const StoredTensor& t : checkpoint.tensors()) {
    const NonFinite found = find_in(checkpoint, t);
    if (found && tensors++ == 0) first = describe(found, t.name, t.shape);
  }
  if (tensors == 0) return;
  throw NumericError(
      "{}: {}{}. Use another checkpoint.", checkpoint.folder().string(), first,
      tensors == 1 ? "" : fmt::format(" ({} tensors have such elements)", format_count(tensors)));
}

}  // namespace tessera::checkpoint

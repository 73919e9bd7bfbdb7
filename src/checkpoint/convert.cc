// Converts element types through float, element by element, with loads that need no alignment:
// tensors of mapped files begin at any byte. The source type is a template argument, so that the
// inner loop has no branch on it.
#include "checkpoint/convert.h"

#include <bit>
#include <cstring>

#include "base/error.h"

namespace tessera {

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
      std::memcpy(to + i * static_cast<int64_t>(sizeof(T)), &x, sizeof(T));
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
      each(+[](float x) { return static_cast<double>(x); });
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
  CHECK(is_float(from_type) && is_float(to_type), "{} cannot become {}", name_of(from_type),
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

}  // namespace tessera

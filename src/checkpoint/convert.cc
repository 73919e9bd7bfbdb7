#include "checkpoint/convert.h"

#include <bit>
#include <cstring>

#include "base/error.h"

namespace tessera {

uint16_t f16_from_float(float x) {
  const auto u = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);  // a quiet NaN that keeps its upper bits
  } else if (magnitude >= 0x47800000u) {            // 2^16 and above
    half = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // 2^-14 and above: normal; a carry may reach infinity
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    half = (rounded - 0x38000000u) >> 13;
  } else {
    // Subnormal: in a float at 0.5 the last bit weighs 2^-24, so adding 0.5 rounds there.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<uint32_t>(sum) - 0x3f000000u;
  }
  return static_cast<uint16_t>(sign | half);
}

float float_from_f16(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  const uint32_t wide = exponent == 31 ? 0xffu : exponent + 112u;  // 112: the biases' difference
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
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

float load_float(DType type, const std::byte* from, int64_t i) {
  if (type == DType::kF32) return load<float>(from + i * 4);
  if (type == DType::kF64) return static_cast<float>(load<double>(from + i * 8));
  const auto bits = load<uint16_t>(from + i * 2);
  if (type == DType::kF16) return float_from_f16(bits);
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
    if (n > 0) std::memcpy(to, from, static_cast<size_t>(n * size_of(from_type)));
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

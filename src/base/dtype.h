// Element types of values, files and messages.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera {

enum class DType : uint8_t { kF32, kBF16, kF16, kF64, kI32, kI64, kU16, kU8 };

int64_t size_of(DType t);                                  // bytes of one element
std::string_view name_of(DType t);                         // "f32", "bf16", …
std::optional<DType> dtype_from_name(std::string_view s);  // nothing if there is no such type

// A bfloat16: the upper half of a float. Rounds to nearest, ties to even; NaN stays NaN.
struct BF16 {
  uint16_t bits = 0;
  BF16() = default;
  explicit BF16(float x) {
    const auto u = std::bit_cast<uint32_t>(x);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? static_cast<uint16_t>((u >> 16) | 0x40u)
               : static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

// An IEEE 754 half (binary16): 5 exponent bits, 10 fraction bits, largest finite number 65,504.
// Numbers from 65,520 on round to infinity. Rounds to nearest, ties to even; NaN stays NaN.
struct F16 {
  uint16_t bits = 0;
  F16() = default;
  explicit F16(float x);
  explicit operator float() const;
};

// Returns x rounded to bf16 or f16; unchanged for other dtypes.
inline float rounded_to(float x, DType type) {
  if (type == DType::kBF16) return static_cast<float>(BF16(x));
  return type == DType::kF16 ? static_cast<float>(F16(x)) : x;
}

}  // namespace tessera

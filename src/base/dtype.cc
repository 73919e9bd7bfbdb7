// The table of element types, and the conversion between float and IEEE 754 binary16 by integer
// arithmetic on the bits, which needs no instruction set extension.
#include "base/dtype.h"

#include <array>

#include "base/error.h"

namespace tessera {
namespace {

struct Row {
  DType type;
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<Row, 8> kTypes{{{DType::kF32, "f32", 4},
                                     {DType::kBF16, "bf16", 2},
                                     {DType::kF16, "f16", 2},
                                     {DType::kF64, "f64", 8},
                                     {DType::kI32, "i32", 4},
                                     {DType::kI64, "i64", 8},
                                     {DType::kU16, "u16", 2},
                                     {DType::kU8, "u8", 1}}};

const Row& row(DType t) {
  const auto i = static_cast<size_t>(t);
  CHECK(i < kTypes.size() && kTypes[i].type == t, "dtype {} is not in the table", i);
  return kTypes[i];
}

constexpr uint32_t kSignOfF32 = 0x80000000u, kInfinityOfF32 = 0x7f800000u;
constexpr float kF16Unit = 0x1p-24f;  // the smallest half above zero

}  // namespace

F16::F16(float x) {
  const auto u = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>((u & kSignOfF32) >> 16);
  const uint32_t magnitude = u & ~kSignOfF32;
  // NaN: the quiet bit is set, and the upper bits of the payload are kept.
  if (magnitude > kInfinityOfF32) {
    bits = static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  } else if (magnitude >= std::bit_cast<uint32_t>(65520.0f)) {
    bits = static_cast<uint16_t>(sign | 0x7c00u);
  } else if (magnitude < std::bit_cast<uint32_t>(0x1p-14f)) {
    // A subnormal half. The spacing of floats in [2^-1, 1) is 2^-24, which is the unit of subnormal
    // halves. Adding 2^-1 therefore makes the FPU round to that unit, and the low bits are the
    // result. (If it rounds up to the smallest normal half, the carry is already in the exponent
    // field.)
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(sum) & 0x7ffu));
  } else {
    // A normal half. Adding 0xfff and the lowest bit that stays rounds the 13 dropped bits to
    // nearest, ties to even; a carry out of the fraction increments the exponent, which is the
    // correct result. Then the exponent's bias changes from 127 to 15.
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    bits = static_cast<uint16_t>(sign | ((rounded - (uint32_t{127 - 15} << 23)) >> 13));
  }
}

F16::operator float() const {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16, exponent = (bits >> 10) & 0x1fu,
                 fraction = bits & 0x3ffu;
  // A subnormal half is an integer multiple of 2^-24, which is exact as a float.
  if (exponent == 0) {
    const float small = static_cast<float>(fraction) * kF16Unit;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(small));
  }
  const uint32_t wide = exponent == 0x1f ? 0xffu : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

int64_t size_of(DType t) { return row(t).bytes; }
std::string_view name_of(DType t) { return row(t).name; }

std::optional<DType> dtype_from_name(std::string_view s) {
  for (const Row& r : kTypes)
    if (r.name == s) return r.type;
  return std::nullopt;
}

}  // namespace tessera

// The 8-bit format of optimizer moments: dynamic codes with a scale per block (Dettmers et al.
// 2022, "8-bit Optimizers via Block-wise Quantization").
//
// Each block of 64 consecutive moments has a scale, the element with the largest magnitude, with
// its sign. A moment is stored as the code whose value is next to moment / scale:
//
//   moment ≈ values[code] · scale
//
// Values are the centers of equal parts of seven decades, 0 and 1. Decade d, [10^(d-7), 10^(d-6)],
// has 2^d parts, and negative values mirror the positive ones. The code of second moments, which
// are not negative, has twice as many parts and no negative values.
//
//   first moments    0, ±5.5e-7, ±3.25e-6, ±7.75e-6, ±2.125e-5 … ±0.99297, 1
//   second moments   0,  3.25e-7, 7.75e-7, 2.125e-6 …            0.99648, 1
//
// There is no value -1. The sign of the scale makes 1 the value of the largest element, so reading
// a block and quantizing what was read gives the same codes and scale. A positive second moment
// never has the code of 0, but at least the smallest value: an update divides by its root. Blocks
// below kSmallestMomentScale are stored as zeros, so values times scales are normal numbers. Bytes
// of zeros are moments of zero.
#pragma once

#include <cstdint>

namespace tessera {

// ---- The centers of dynamic codes (Dettmers 2016): a decade is divided into equal parts, and a
// code is the center of a part.

// Returns the center of part k (from 0) of `parts` equal parts of [0.1 / power, 1 / power].
constexpr float dynamic_center(int parts, int k, double power) {
  // Both integers are exact, so the quotient is rounded once before it becomes an f32.
  return static_cast<float>((2 * parts + 9 * (2 * k + 1)) / (20 * parts * power));
}

// ---- Moments

constexpr int64_t kMomentBlock = 64;  // moments that share a scale
constexpr float kSmallestMomentScale = 0x1p-100f;

// The codes of first moments, and the codes of second moments.
enum class MomentCode : uint8_t { kSigned, kUnsigned };

constexpr int kMomentSteps = 8;  // seven decades, and 1

// The number of a magnitude a in [0, 1] counts the values in (0, a], up to rounding to the nearest
// one. It is min(last, floor(slope · a + shift)) with the constants of the last step whose `from`
// is not above a, and 0 if there is none.
struct MomentStep {
  float from = 0, slope = 0, shift = 0, last = 0;
};

struct MomentTable {
  // By code. The code of a magnitude is its number n, and the code of its negative is 256 - n.
  float values[256] = {};
  MomentStep steps[kMomentSteps] = {};
};

constexpr MomentTable make_moment_table(MomentCode code) {
  const bool has_signs = code == MomentCode::kSigned;
  MomentTable t;
  const auto middle = [&](int n, float next) {
    return static_cast<float>((static_cast<double>(t.values[n]) + static_cast<double>(next)) / 2);
  };
  double power = 1e6;
  int at = 1, parts = has_signs ? 1 : 2;
  for (int d = 0; d + 1 < kMomentSteps; ++d, parts *= 2, power /= 10) {
    const double slope = 10 * power * parts / 9;
    t.steps[d] = {middle(at - 1, dynamic_center(parts, 0, power)), static_cast<float>(slope),
                  static_cast<float>(at - parts / 9.0), static_cast<float>(at + parts - 1)};
    for (int k = 0; k < parts; ++k, ++at) {
      t.values[at] = dynamic_center(parts, k, power);
      if (has_signs) t.values[256 - at] = -t.values[at];
    }
  }
  const auto one = static_cast<float>(at);
  t.steps[kMomentSteps - 1] = {middle(at - 1, 1), 0, one, one};
  t.values[at] = 1;
  // Every positive second moment counts as at least the smallest value.
  if (!has_signs) t.steps[0].from = 0x1p-149f;
  return t;
}

inline constexpr MomentTable kMomentTables[2] = {make_moment_table(MomentCode::kSigned),
                                                 make_moment_table(MomentCode::kUnsigned)};
constexpr const MomentTable& table_of(MomentCode code) {
  return kMomentTables[static_cast<int>(code)];
}

}  // namespace tessera

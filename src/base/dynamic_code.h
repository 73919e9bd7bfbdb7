// The centers that dynamic 8-bit codes are made of (Dettmers 2016): a decade is divided into equal
// parts, and a code is the center of a part.
#pragma once

namespace tessera {

// Returns the center of part k (from 0) of `parts` equal parts of [0.1 / power, 1 / power].
constexpr float dynamic_center(int parts, int k, double power) {
  // Both integers are exact, so the quotient is rounded once before it becomes an f32.
  return static_cast<float>((2 * parts + 9 * (2 * k + 1)) / (20 * parts * power));
}

}  // namespace tessera

// The numbers of Muon (Jordan 2024; Liu et al. 2025): the coefficients of the Newton–Schulz
// iteration, which brings the singular values of a matrix near 1,
//   A = X Xᵀ,   X = a X + (b A + c A²) X      (of X [R, C]; with Xᵀ for X if R > C)
// and the scale of an update by the size of its matrix.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "base/real.h"

namespace tessera {

// simple: Jordan's, the same in each step. quintic: Megatron's, a cycle of five steps.
// polar_express: Amsel et al. 2025, the last one repeated.
enum class NewtonSchulzCoefficients : uint8_t { kSimple, kQuintic, kPolarExpress };
constexpr const char* enum_names(NewtonSchulzCoefficients) {
  return "simple|quintic|polar_express";
}

struct NewtonSchulzStep {
  double a = 0, b = 0, c = 0;
  bool operator==(const NewtonSchulzStep&) const = default;
};

// Returns the coefficients of a step, from 0.
inline NewtonSchulzStep newton_schulz_step(NewtonSchulzCoefficients set, int64_t step) {
  constexpr NewtonSchulzStep kQuintic[] = {{4.0848, -6.8946, 2.9270},
                                           {3.9505, -6.3029, 2.6377},
                                           {3.7418, -5.5913, 2.3037},
                                           {2.8769, -3.1427, 1.2046},
                                           {2.8366, -3.0525, 1.2012}};
  constexpr NewtonSchulzStep kPolarExpress[] = {
      {8.2051, -22.9019, 16.4607}, {4.0664, -2.8612, 0.5184}, {3.9096, -2.8234, 0.5250},
      {3.2856, -2.4153, 0.4853},   {2.2779, -1.6198, 0.3985}, {1.8726, -1.2307, 0.3585},
      {1.8564, -1.2132, 0.3568},   {1.8750, -1.2500, 0.3750}};
  switch (set) {
    case NewtonSchulzCoefficients::kSimple:
      break;
    case NewtonSchulzCoefficients::kQuintic:
      return kQuintic[step % std::ssize(kQuintic)];
    case NewtonSchulzCoefficients::kPolarExpress:
      return kPolarExpress[std::min<int64_t>(step, std::ssize(kPolarExpress) - 1)];
  }
  return {3.4445, -4.7750, 2.0315};
}

// The factor of an orthogonal update of a matrix [R, C]. spectral: 0.2 sqrt(max(R, C)), with which
// an update has about the root mean square of AdamW's, whose rates can be used. shape:
// sqrt(max(1, R / C)), for rates near 0.02.
enum class UpdateScale : uint8_t { kSpectral, kShape };
constexpr const char* enum_names(UpdateScale) { return "spectral|shape"; }

inline double update_scale(UpdateScale scale, int64_t rows, int64_t columns) {
  constexpr double kRootMeanSquare = 0.2;
  if (scale == UpdateScale::kShape) return std::sqrt(std::max(1.0, ratio(rows, columns)));
  return kRootMeanSquare * std::sqrt(ratio(std::max(rows, columns), 1));
}

}  // namespace tessera

// Ops of low-rank adapters (Hu et al. 2021; DoRA: Liu et al. 2024) on weights that pack several
// matrices: each of these is a range of indices of one dimension, and has an adapter of its own.
#pragma once

#include "base/dtype.h"
#include "ir/ops/fields.h"

namespace tessera {

// y = base, with `change` added to the indices [first, first + n) of dimension `dim`; n is the
// extent of `change` in it.
struct AddPart {
  static constexpr std::string_view kName = "add_part";
  enum In { kBase, kChange };
  enum Out { kY };
  int64_t dim = 0, first = 0;
  static void fields(auto& self, auto&& visit) {
    visit("dim", self.dim, Print::kAlways, at_least(0));
    visit("first", self.first, Print::kAlways, at_least(0));
  }
  static const OpRule rule;
  bool operator==(const AddPart&) const = default;
};

// y = the indices [first, first + count) of dimension `dim` of x: the gradient of `change`.
struct TakePart {
  static constexpr std::string_view kName = "take_part";
  enum In { kX };
  enum Out { kY };
  int64_t dim = 0, first = 0, count = 1;
  static void fields(auto& self, auto&& visit) {
    visit("dim", self.dim, Print::kAlways, at_least(0));
    visit("first", self.first, Print::kAlways, at_least(0));
    visit("count", self.count, Print::kAlways, at_least(1));
  }
  static const OpRule rule;
  bool operator==(const TakePart&) const = default;
};

// squares[m] = Σ_k (w[m, k] + scale · Σ_r b[m, r] a[r, k])², for the outputs m of the weight whose
// index of dimension `dim` is in [first, first + n); b has n of these. DoRA treats them as
// constants, so they have no gradient.
struct AdaptedSquares {
  static constexpr std::string_view kName = "adapted_squares";
  enum In { kW, kA, kB };  // [out…, in…], [rank, in…], [out…, rank]
  enum Out { kSquares };   // [out…] f32
  double scale = 1;
  int64_t dim = 0, first = 0;
  static void fields(auto& self, auto&& visit) {
    visit("scale", self.scale, Print::kAlways, kFinite);
    visit("dim", self.dim, Print::kAlways, at_least(0));
    visit("first", self.first, Print::kAlways, at_least(0));
  }
  static const OpRule rule;
  bool operator==(const AdaptedSquares&) const = default;
};

// y[…, m] = x[…, m] · magnitude[m] / sqrt(squares[m]) for the indices [first, first + n) of
// dimension `dim` of x, in which magnitude and squares have the extent n; x elsewhere.
struct ScalePart {
  static constexpr std::string_view kName = "scale_part";
  enum In { kX, kMagnitude, kSquares };
  enum Out { kY };
  int64_t dim = 0, first = 0;
  static void fields(auto& self, auto&& visit) {
    visit("dim", self.dim, Print::kAlways, at_least(0));
    visit("first", self.first, Print::kAlways, at_least(0));
  }
  static const OpRule rule;
  bool operator==(const ScalePart&) const = default;
};

// d_magnitude[m] += Σ_… dy[…, m] x[…, m] / sqrt(squares[m])
struct ScalePartGrad {
  static constexpr std::string_view kName = "scale_part_grad";
  enum In { kDy, kX, kSquares };
  enum Out { kDMagnitude };
  int64_t dim = 0, first = 0;
  DType accum_dtype = DType::kF32;
  static void fields(auto& self, auto&& visit) {
    visit("dim", self.dim, Print::kAlways, at_least(0));
    visit("first", self.first, Print::kAlways, at_least(0));
    visit("accum_dtype", self.accum_dtype);
  }
  static const OpRule rule;
  bool operator==(const ScalePartGrad&) const = default;
};

}  // namespace tessera

// RMS norm of queries and keys before their scores (QK-norm: Henry et al. 2020; Dehghani et al.
// 2023), over each head or over the heads of a token together.
#pragma once

#include "base/dtype.h"
#include "ir/ops/fields.h"

namespace tessera {

// y = x / sqrt(mean(x²) + epsilon) · (gain + 1 if unit_offset) of the queries and of the keys in
// packed qkv [B, T, K, G+2, D]; values stay as they are. The mean is over a head; with `whole` it
// is over all queries, or all keys, of a token, whose sums of squares head_squares gives.
struct HeadNorm {
  static constexpr std::string_view kName = "head_norm";
  enum In {
    kQkv,
    kQueryGain,  // [D], or [K, G, D] with `whole`
    kKeyGain,    // [D], or [K, D] with `whole`
    kSquares     // [B, T, 2] f32
  };
  enum Out { kY };
  double epsilon = 0;
  bool unit_offset = false;
  bool whole = false;
  static void fields(auto& self, auto&& visit) {
    visit("epsilon", self.epsilon, Print::kAlways, kNotNegative);
    visit("unit_offset", self.unit_offset);
    visit("whole", self.whole);
  }
  static void inputs(const HeadNorm& a, auto&& slot) {
    for (const In required : {kQkv, kQueryGain, kKeyGain}) slot(required, 1);
    slot(kSquares, a.whole);
  }
  static const OpRule rule;
  bool operator==(const HeadNorm&) const = default;
};

// With `whole`, dx lacks what it is by the sums of squares, whose gradient is an output.
struct HeadNormGrad {
  static constexpr std::string_view kName = "head_norm_grad";
  enum In { kQkv, kQueryGain, kKeyGain, kDy, kSquares };
  enum Out { kDx, kDQueryGain, kDKeyGain, kDSquares };
  HeadNorm of = {};
  DType accum_dtype = DType::kF32;
  static void fields(auto& self, auto&& visit) {
    HeadNorm::fields(self.of, visit);
    visit("accum_dtype", self.accum_dtype);
  }
  static void inputs(const HeadNormGrad& a, auto&& slot) {
    for (const In required : {kQkv, kQueryGain, kKeyGain, kDy}) slot(required, 1);
    slot(kSquares, a.of.whole);
  }
  static void outputs(const HeadNormGrad& a, auto&& slot) {
    for (const Out required : {kDx, kDQueryGain, kDKeyGain}) slot(required, 1);
    slot(kDSquares, a.of.whole);
  }
  static const OpRule rule;
  bool operator==(const HeadNormGrad&) const = default;
};

// s[b, t] = (Σ q², Σ k²) over the heads of a token. Where tensor ranks divide the heads, each has a
// part of the sum.
struct HeadSquares {
  static constexpr std::string_view kName = "head_squares";
  enum In { kQkv };
  enum Out { kSquares };  // [B, T, 2] f32
  static void fields(auto&, auto&&) {}
  static const OpRule rule;
  bool operator==(const HeadSquares&) const = default;
};

// dx = so far + 2 x ds of the queries and of the keys, so far of the values
struct HeadSquaresGrad {
  static constexpr std::string_view kName = "head_squares_grad";
  enum In { kQkv, kDSquares, kSoFar };
  enum Out { kDx };
  static void fields(auto&, auto&&) {}
  static const OpRule rule;
  bool operator==(const HeadSquaresGrad&) const = default;
};

}  // namespace tessera

// Rotates queries and keys by their positions (RoPE, Su et al. 2021).
#pragma once

#include <vector>

#include "ir/ops/fields.h"

namespace tessera {

// How the frequencies are changed for contexts longer than the original training context
// (kernels/rotary.h has the formulas).
enum class RopeScaling : uint8_t { kUnscaled, kLinear, kLlama3, kYarn, kLongrope };
constexpr const char* enum_names(RopeScaling) { return "unscaled|linear|llama3|yarn|longrope"; }

// Halves of a head are paired (GPT-NeoX). The gradient is the inverse rotation, times `magnitude`.
struct Rotary {
  static constexpr std::string_view kName = "rotary";
  enum In { kQkv, kPositions };  // [B, T, K, G+2, D], [B, T] i32
  enum Out { kRotated };
  int64_t dims = 0;  // rotated dimensions of each head
  double base = 0;
  RopeScaling scaling = RopeScaling::kUnscaled;
  double factor = 1;
  double low = 1, high = 4;           // llama3, yarn: rotations over the original context
  int64_t context = 0;                // llama3, yarn: the original context
  bool truncate = true;               // yarn: the bounds of the ramp are whole numbers
  std::vector<double> dividers = {};  // longrope: one per pair
  double magnitude = 1;               // cosines and sines are multiplied by it
  bool inverse = false;
  bool has_bounds() const {
    return scaling == RopeScaling::kLlama3 || scaling == RopeScaling::kYarn;
  }
  static void fields(auto& self, auto&& visit) {
    visit("dims", self.dims, Print::kAlways, at_least(2));
    visit("base", self.base, Print::kAlways, between(kTiny, kHuge));
    visit("scaling", self.scaling);
    visit("factor", self.factor, Print::kUnlessDefault, between(kTiny, kHuge));
    visit("low", self.low, always_if(self.has_bounds()), between(kTiny, kHuge));
    visit("high", self.high, always_if(self.has_bounds()), between(self.low, kHuge));
    visit("context", self.context, always_if(self.has_bounds()),
          at_least(self.has_bounds() ? 1 : 0));
    visit("truncate", self.truncate);
    visit("dividers", self.dividers, Print::kUnlessDefault, between(kTiny, kHuge));
    visit("magnitude", self.magnitude, Print::kUnlessDefault, between(kTiny, kHuge));
    visit("inverse", self.inverse);
  }
  static const OpRule rule;
  bool operator==(const Rotary&) const = default;
};

}  // namespace tessera

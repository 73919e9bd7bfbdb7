// Turns queries and keys by their positions (Su et al. 2021).
#pragma once

#include "ir/ops/fields.h"

namespace tessera {

// Halves of a head are paired (GPT-NeoX). The gradient is the inverse turn.
struct Rotary {
  static constexpr std::string_view kName = "rotary";
  enum In { kQkv, kPositions };  // [B, T, K, G+2, D], [B, T] i32
  enum Out { kTurned };
  int64_t dims = 0;  // of each head that turn
  double base = 0;
  // Slow frequencies are lowered as LLaMA 3.1 does (kernels/rotary.h); factor 1: they are not.
  double factor = 1, low = 1, high = 4;
  int64_t context = 0;
  bool inverse = false;
  bool scales() const { return factor != 1; }
  static void fields(auto& self, auto&& visit) {
    visit("dims", self.dims, Print::kAlways, at_least(2));
    visit("base", self.base, Print::kAlways, between(kTiny, kHuge));
    visit("factor", self.factor, Print::kUnlessDefault, between(1, kHuge));
    visit("low", self.low, always_if(self.scales()), between(kTiny, kHuge));
    visit("high", self.high, always_if(self.scales()), between(self.low, kHuge));
    visit("context", self.context, always_if(self.scales()), at_least(self.scales() ? 1 : 0));
    visit("inverse", self.inverse);
  }
  static const OpRule rule;
  bool operator==(const Rotary&) const = default;
};

}  // namespace tessera

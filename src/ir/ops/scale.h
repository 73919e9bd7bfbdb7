// Scaling, soft caps, and addition to a sum.
#pragma once

#include "base/dtype.h"
#include "ir/ops/fields.h"

namespace tessera {

// y = factor · x
struct Scale {
  static constexpr std::string_view kName = "scale";
  enum In { kX };
  enum Out { kY };
  double factor = 1;
  bool rounded = false;  // the factor is rounded to the type of x first
  static void fields(auto& self, auto&& visit) {
    visit("factor", self.factor, Print::kAlways, kFinite);
    visit("rounded", self.rounded);
  }
  static const OpRule rule;
  bool operator==(const Scale&) const = default;
};

// y = cap · tanh(x / cap): logits that are generated from. Losses have the cap as an attribute.
struct SoftCap {
  static constexpr std::string_view kName = "soft_cap";
  enum In { kX };
  enum Out { kY };
  double cap = 1;
  static void fields(auto& self, auto&& visit) {
    visit("cap", self.cap, Print::kAlways, between(kTiny, kHuge));
  }
  static const OpRule rule;
  bool operator==(const SoftCap&) const = default;
};

// sum += x, over the calls of a step: the gradients that layers give for a value that they all
// read, or a matmul for the gradient of its weight.
struct Accumulate {
  static constexpr std::string_view kName = "accumulate";
  enum In { kX };
  enum Out { kSum };
  DType accum_dtype = DType::kF32;
  static void fields(auto& self, auto&& visit) { visit("accum_dtype", self.accum_dtype); }
  static const OpRule rule;
  bool operator==(const Accumulate&) const = default;
};

}  // namespace tessera

// Dropout and its gradient.
#pragma once

#include "ir/ops/fields.h"

namespace tessera {

// y = x · mask / (1 − p), where the mask is a function of (seed, step, key, layer, global sample,
// element). The gradient is the same op, which regenerates the mask; with `mask` the mask is the
// second output, one byte per element, and the gradient is dropout_grad.
struct Dropout {
  static constexpr std::string_view kName = "dropout";
  enum In { kX, kSamples, kStep };
  enum Out { kY, kMask };
  double p = 0;
  int64_t key = 0;
  bool mask = false;
  static void fields(auto& self, auto&& visit) {
    visit("p", self.p, Print::kAlways, kFraction);
    visit("key", self.key, Print::kAlways);
    visit("mask", self.mask);
  }
  static void outputs(const Dropout& a, auto&& slot) {
    slot(kY, 1);
    slot(kMask, a.mask);
  }
  static const OpRule rule;
  bool operator==(const Dropout&) const = default;
};

// dx = dy · mask / (1 − p)
struct DropoutGrad {
  static constexpr std::string_view kName = "dropout_grad";
  enum In { kDy, kMask };
  enum Out { kDx };
  double p = 0;
  static void fields(auto& self, auto&& visit) { visit("p", self.p, Print::kAlways, kFraction); }
  static const OpRule rule;
  bool operator==(const DropoutGrad&) const = default;
};

}  // namespace tessera

// y = x / (1 + |x|), of every element.
#pragma once

#include "ir/ops/fields.h"

namespace tessera {

struct Softsign {
  static constexpr std::string_view kName = "softsign";
  enum In { kX };
  enum Out { kY };
  static void fields(auto&, auto&&) {}
  static const OpRule rule;
  bool operator==(const Softsign&) const = default;
};

// dx = dy / (1 + |x|)^2
struct SoftsignGrad {
  static constexpr std::string_view kName = "softsign_grad";
  enum In { kX, kDy };
  enum Out { kDx };
  static void fields(auto&, auto&&) {}
  static const OpRule rule;
  bool operator==(const SoftsignGrad&) const = default;
};

}  // namespace tessera

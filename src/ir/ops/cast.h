// Copies of a value: in another dtype, or in other memory.
#pragma once

#include "base/dtype.h"
#include "ir/ops/fields.h"

namespace tessera {

// y = x rounded to nearest even
struct Cast {
  static constexpr std::string_view kName = "cast";
  enum In { kX };
  enum Out { kY };
  DType to = DType::kF32;
  static void fields(auto& self, auto&& visit) { visit("to", self.to, Print::kAlways); }
  static const OpRule rule;
  bool operator==(const Cast&) const = default;
};

// y = x in other memory: to the host's memory, or back
struct Copy {
  static constexpr std::string_view kName = "copy";
  enum In { kX };
  enum Out { kY };
  static void fields(auto&, auto&&) {}
  static const OpRule rule;
  bool operator==(const Copy&) const = default;
};

}  // namespace tessera

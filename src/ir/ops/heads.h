// Packed queries, keys and values of heads whose keys and values several ranks hold, and their
// gradients. These ops only move and add values.
#pragma once

#include "ir/ops/fields.h"

namespace tessera {

// y[b, t, k · copies + c] = x[b, t, k]
struct RepeatHeads {
  static constexpr std::string_view kName = "repeat_heads";
  enum In { kPairs };    // [B, T, K, 2, D]
  enum Out { kCopies };  // [B, T, K · copies, 2, D]
  int64_t copies = 1;
  static void fields(auto& self, auto&& visit) {
    visit("copies", self.copies, Print::kAlways, at_least(1));
  }
  static const OpRule rule;
  bool operator==(const RepeatHeads&) const = default;
};

struct RepeatHeadsGrad {
  static constexpr std::string_view kName = "repeat_heads_grad";
  enum In { kDCopies };
  enum Out { kDPairs };
  int64_t copies = 1;
  static void fields(auto& self, auto&& visit) {
    visit("copies", self.copies, Print::kAlways, at_least(1));
  }
  static const OpRule rule;
  bool operator==(const RepeatHeadsGrad&) const = default;
};

// packed[b, t, k] = queries[b, t, k] then pairs[b, t, k]
struct JoinHeads {
  static constexpr std::string_view kName = "join_heads";
  enum In { kQueries, kPairs };  // [B, T, K, G, D], [B, T, K, 2, D]
  enum Out { kPacked };          // [B, T, K, G+2, D]
  static void fields(auto&, auto&&) {}
  static const OpRule rule;
  bool operator==(const JoinHeads&) const = default;
};

struct JoinHeadsGrad {
  static constexpr std::string_view kName = "join_heads_grad";
  enum In { kDPacked };
  enum Out { kDQueries, kDPairs };
  static void fields(auto&, auto&&) {}
  static const OpRule rule;
  bool operator==(const JoinHeadsGrad&) const = default;
};

}  // namespace tessera

// Queries, keys and values of heads, packed and in arrays of their own, copies of the keys and
// values that several ranks hold, and pairs of vectors. These ops only move and add values.
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

// The inverse of join_heads. Each of the two is the gradient of the other.
struct SplitHeads {
  static constexpr std::string_view kName = "split_heads";
  enum In { kPacked };
  enum Out { kQueries, kPairs };
  static void fields(auto&, auto&&) {}
  static const OpRule rule;
  bool operator==(const SplitHeads&) const = default;
};

// pair[b, t, 0] = first[b, t], pair[b, t, 1] = second[b, t]: the concatenation that a matmul over
// its last two dimensions reads.
struct JoinPair {
  static constexpr std::string_view kName = "join_pair";
  enum In { kFirst, kSecond };  // [B, T, F] each
  enum Out { kPair };           // [B, T, 2, F]
  static void fields(auto&, auto&&) {}
  static const OpRule rule;
  bool operator==(const JoinPair&) const = default;
};

// The inverse, which is its gradient.
struct SplitPair {
  static constexpr std::string_view kName = "split_pair";
  enum In { kPair };
  enum Out { kFirst, kSecond };
  static void fields(auto&, auto&&) {}
  static const OpRule rule;
  bool operator==(const SplitPair&) const = default;
};

}  // namespace tessera

// Packs the heads of multi-head latent attention (DeepSeek-AI 2024), whose keys have a part of
// their own and a part that all heads share, and whose values may be narrower than keys. Also
// brings the dimensions that RoPE rotates into its order: published weights have them last, pair by
// pair.
#pragma once

#include "ir/ops/fields.h"

namespace tessera {

// K heads of width D = N + R and values of width V <= D, with q = queries[b, t, k], e =
// expanded[b, t, k] and halves(x) = x[0], x[2], …, x[1], x[3], … of the R numbers x:
//   packed[b, t, k] = [[halves(q[N:]), q[:N]], [halves(rope_key[b, t]), e[:N]], [e[N:], 0, …]]
struct LatentHeads {
  static constexpr std::string_view kName = "latent_heads";
  enum In { kQueries, kExpanded, kRopeKey };  // [B, T, K, N+R], [B, T, K, N+V], [B, T, R]
  enum Out { kPacked };                       // [B, T, K, 3, D]
  static void fields(auto&, auto&&) {}
  static const OpRule rule;
  bool operator==(const LatentHeads&) const = default;
};

// Writes the gradients of the three inputs. That of `rope_key` is the sum over heads.
struct LatentHeadsGrad {
  static constexpr std::string_view kName = "latent_heads_grad";
  enum In { kDPacked };
  enum Out { kDQueries, kDExpanded, kDShared };
  int64_t shared_width = 2, value_width = 0;  // R, V
  static void fields(auto& self, auto&& visit) {
    visit("shared_width", self.shared_width, Print::kAlways, at_least(2));
    visit("value_width", self.value_width, Print::kAlways, at_least(1));
  }
  static const OpRule rule;
  bool operator==(const LatentHeadsGrad&) const = default;
};

}  // namespace tessera

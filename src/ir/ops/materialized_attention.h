// Attention in three ops that hold every pair of tokens, for comparison and for planning systems
// that do so (compiler option attention: unfused).
#pragma once

#include "ir/ops/fields.h"

namespace tessera {

// s[b,h,i,j] = cap(scale · q[b,i,h] · k[b,j,h]) as in attention.h, −inf where j > i, or
// j ≤ i − window
struct AttentionScores {
  static constexpr std::string_view kName = "attention_scores";
  enum In { kQkv };
  enum Out { kScores };  // f32
  double scale = 1;
  int64_t window = 0;  // 0: none
  double soft_cap = 0;
  bool half = false;  // the scores are of the type of qkv
  static void fields(auto& self, auto&& visit) {
    visit("scale", self.scale, Print::kAlways, kFinite);
    visit("window", self.window, Print::kUnlessDefault, at_least(0));
    visit("soft_cap", self.soft_cap, Print::kUnlessDefault, kNotNegative);
    visit("half", self.half);
  }
  static const OpRule rule;
  bool operator==(const AttentionScores&) const = default;
};

// Adds the parts of q and k to the gradient of qkv so far. With a soft cap it computes the scores
// again.
struct AttentionScoresGrad {
  static constexpr std::string_view kName = "attention_scores_grad";
  enum In { kQkv, kDScores, kSoFar };
  enum Out { kDQkv };
  AttentionScores of = {};
  static void fields(auto& self, auto&& visit) { AttentionScores::fields(self.of, visit); }
  static const OpRule rule;
  bool operator==(const AttentionScoresGrad&) const = default;
};

// p = softmax over j, of the type of s; with sinks (attention.h) also the log of each row's sum
struct Softmax {
  static constexpr std::string_view kName = "softmax";
  enum In { kScores, kSinks };        // [B, H, T, S], [H]
  enum Out { kProbabilities, kLse };  // lse: [B, H, T] f32
  bool sinks = false;
  static void fields(auto& self, auto&& visit) { visit("sinks", self.sinks); }
  static void inputs(const Softmax& a, auto&& slot) {
    slot(kScores, 1);
    slot(kSinks, a.sinks);
  }
  static void outputs(const Softmax& a, auto&& slot) {
    slot(kProbabilities, 1);
    slot(kLse, a.sinks);
  }
  static const OpRule rule;
  bool operator==(const Softmax&) const = default;
};

struct SoftmaxGrad {
  static constexpr std::string_view kName = "softmax_grad";
  enum In { kProbabilities, kDProbabilities };
  enum Out { kDScores };
  static void fields(auto&, auto&&) {}
  static const OpRule rule;
  bool operator==(const SoftmaxGrad&) const = default;
};

// out[b,i,h] = Σ_j p[b,h,i,j] v[b,j,h], of the first `value_width` numbers of v (0: all)
struct AttentionMix {
  static constexpr std::string_view kName = "attention_mix";
  enum In { kProbabilities, kQkv };
  enum Out { kOut };
  int64_t value_width = 0;
  static void fields(auto& self, auto&& visit) {
    visit("value_width", self.value_width, Print::kUnlessDefault, at_least(0));
  }
  static const OpRule rule;
  bool operator==(const AttentionMix&) const = default;
};

// Writes the part of v, and zero to the parts of q and k.
struct AttentionMixGrad {
  static constexpr std::string_view kName = "attention_mix_grad";
  enum In { kProbabilities, kQkv, kDOut };
  enum Out { kDProbabilities, kDQkv };
  AttentionMix of = {};
  static void fields(auto& self, auto&& visit) { AttentionMix::fields(self.of, visit); }
  static const OpRule rule;
  bool operator==(const AttentionMixGrad&) const = default;
};

}  // namespace tessera

// Attention without a T × T buffer (Dao et al. 2022), its gradient, and attention to a cache.
#pragma once

#include "base/dtype.h"
#include "ir/ops/fields.h"

namespace tessera {

// Masks besides causality and windows (kernels/attention.h).
enum class Mask : uint8_t {
  kNothing,
  kDocuments,  // document numbers [B, T]: keys of other documents are masked
  kPadding,    // token ids [B, S]: padding keys are masked
};
constexpr const char* enum_names(Mask) { return "nothing|documents|padding"; }

// softmax(cap(scale · q kᵀ) + bias) v of packed qkv [B, T, K, G+2, D]: K groups of G query heads,
// one key and one value. cap(s) = soft_cap · tanh(s / soft_cap), or s where soft_cap is 0. A sink
// is one more score of a head in the sum of the softmax, without a value.
struct Attention {
  static constexpr std::string_view kName = "attention";
  enum In {
    kQkv,
    kKv,     // keys and values of their own [B, S, K, 2, D]; the queries are then [B, T, K, G, D]
    kBias,   // a table of biases by distance [K·G, N]
    kSinks,  // [K·G]
    kSeen,   // operand of the mask, i32; for documents with kKv those of the keys
    kSamples,
    kStep
  };
  enum Out { kOut, kLse };  // [B, T, K·G, D]; the log of each row's sum [B, K·G, T], f32
  double scale = 1;
  // Keys and values are an operand of their own: with `whole` those of another sequence, else all
  // those of this one. A rank may have some of its queries, whose places follow from their
  // sharding.
  bool across = false;
  bool whole = false;  // a query sees all keys, not only those up to its own place
  int64_t window = 0;  // a query sees this many keys up to its own place; 0: all of them
  double soft_cap = 0;
  int64_t bias_distance = 0;  // distances from this on have one bias; 0: there are no biases
  bool sinks = false;
  Mask seen = Mask::kNothing;
  double dropout = 0;
  int64_t key = 0;  // seed of the dropout mask
  static void fields(auto& self, auto&& visit) {
    visit("scale", self.scale, Print::kAlways, kFinite);
    visit("across", self.across);
    visit("whole", self.whole);
    visit("window", self.window, Print::kUnlessDefault, at_least(0));
    visit("soft_cap", self.soft_cap, Print::kUnlessDefault, kNotNegative);
    visit("bias_distance", self.bias_distance, Print::kUnlessDefault, at_least(0));
    visit("sinks", self.sinks);
    visit("seen", self.seen);
    visit("dropout", self.dropout, Print::kUnlessDefault, kFraction);
    visit("key", self.key, always_if(self.dropout > 0));
  }
  static void inputs(const Attention& a, auto&& slot) {
    slot(kQkv, 1);
    slot(kKv, a.across);
    slot(kBias, a.bias_distance > 0);
    slot(kSinks, a.sinks);
    slot(kSeen, a.seen != Mask::kNothing);
    slot(kSamples, a.dropout > 0);
    slot(kStep, a.dropout > 0);
  }
  static const OpRule rule;
  bool operator==(const Attention&) const = default;
};

// Reads out and lse instead of sinks: the attribute of `of` is false.
struct AttentionGrad {
  static constexpr std::string_view kName = "attention_grad";
  enum In { kQkv, kOut, kLse, kDOut, kKv, kBias, kSeen, kSamples, kStep };
  enum Out { kDQkv, kDKv, kDBias };  // the gradient of the bias is added to
  Attention of = {};
  DType into = DType::kF32;
  static void fields(auto& self, auto&& visit) {
    Attention::fields(self.of, visit);
    visit("into", self.into);
  }
  static void inputs(const AttentionGrad& a, auto&& slot) {
    for (const In required : {kQkv, kOut, kLse, kDOut}) slot(required, 1);
    slot(kKv, a.of.across);
    slot(kBias, a.of.bias_distance > 0);
    slot(kSeen, a.of.seen != Mask::kNothing);
    slot(kSamples, a.of.dropout > 0);
    slot(kStep, a.of.dropout > 0);
  }
  static void outputs(const AttentionGrad& a, auto&& slot) {
    slot(kDQkv, 1);
    slot(kDKv, a.of.across);
    slot(kDBias, a.of.bias_distance > 0);
  }
  static const OpRule rule;
  bool operator==(const AttentionGrad&) const = default;
};

// The gradient of sinks, added to: d_sinks[h] -= Σ exp(sinks[h] − lse[b,h,t]) · ⟨out, d_out⟩.
// `by_head`: reads the probabilities [B, H, T, S] and their gradient instead of out and d_out.
struct AttentionSinksGrad {
  static constexpr std::string_view kName = "attention_sinks_grad";
  enum In { kSinks, kOut, kLse, kDOut };
  enum Out { kDSinks };
  bool by_head = false;
  DType into = DType::kF32;
  static void fields(auto& self, auto&& visit) {
    visit("by_head", self.by_head);
    visit("into", self.into);
  }
  static const OpRule rule;
  bool operator==(const AttentionSinksGrad&) const = default;
};

// Attention of T new tokens to those in the cache [B, C, 2, K, D] before them, which it extends.
struct CachedAttention {
  static constexpr std::string_view kName = "cached_attention";
  enum In { kQkv, kPositions, kKv, kBias, kSinks };  // positions [B, T]: where the new tokens are
  enum Out { kOut, kCache };
  double scale = 1;
  int64_t context = 0;  // C
  bool across = false;  // keys and values of the new tokens are an input of their own
  int64_t window = 0;
  double soft_cap = 0;
  int64_t bias_distance = 0;
  bool sinks = false;
  static void fields(auto& self, auto&& visit) {
    visit("scale", self.scale, Print::kAlways, kFinite);
    visit("context", self.context, Print::kAlways, at_least(1));
    visit("across", self.across);
    visit("window", self.window, Print::kUnlessDefault, at_least(0));
    visit("soft_cap", self.soft_cap, Print::kUnlessDefault, kNotNegative);
    visit("bias_distance", self.bias_distance, Print::kUnlessDefault, at_least(0));
    visit("sinks", self.sinks);
  }
  static void inputs(const CachedAttention& a, auto&& slot) {
    slot(kQkv, 1);
    slot(kPositions, 1);
    slot(kKv, a.across);
    slot(kBias, a.bias_distance > 0);
    slot(kSinks, a.sinks);
  }
  static const OpRule rule;
  bool operator==(const CachedAttention&) const = default;
};

}  // namespace tessera

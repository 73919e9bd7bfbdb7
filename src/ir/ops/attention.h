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
    kMask,   // operand of the mask, i32; for documents with kKv: documents of the keys
    kSamples,
    kStep,
    kPartOut,  // out and lse of the visits so far
    kPartLse
  };
  enum Out { kOut, kLse };  // [B, T, K·G, V]; the log of each row's sum [B, K·G, T], f32
  double scale = 1;
  // V, the width of values, the first of D numbers; the rest of their rows is zero. 0: D.
  int64_t value_width = 0;
  // Keys and values are a separate operand: from another sequence if `non_causal`, otherwise all
  // keys and values of this sequence. A rank may have only some of its queries; their positions
  // follow from their sharding.
  bool separate_kv = false;
  bool non_causal = false;  // a query sees all keys, not only those up to its own place
  int64_t window = 0;       // a query sees this many keys up to its own place; 0: all of them
  double soft_cap = 0;
  int64_t bias_distance = 0;  // distances from this on have one bias; 0: there are no biases
  bool sinks = false;
  Mask mask = Mask::kNothing;
  double dropout = 0;
  int64_t key = 0;  // seed of the dropout mask
  // Ring attention (Liu et al. 2023): the keys are divided among `ring` ranks as the queries are,
  // and their blocks visit all ranks. With a `visit` from 1 to `ring` the operand is the block of
  // that visit, visit − 1 ranks before this one, and out is f32. `documents` covers all tokens.
  // visit = 0 means all visits; the pass `rotate_keys` replaces it with one op per visit.
  int64_t ring = 0, visit = 0;
  static void fields(auto& self, auto&& visit) {
    visit("scale", self.scale, Print::kAlways, kFinite);
    visit("value_width", self.value_width, Print::kUnlessDefault, at_least(0));
    visit("separate_kv", self.separate_kv);
    visit("non_causal", self.non_causal);
    visit("window", self.window, Print::kUnlessDefault, at_least(0));
    visit("soft_cap", self.soft_cap, Print::kUnlessDefault, kNotNegative);
    visit("bias_distance", self.bias_distance, Print::kUnlessDefault, at_least(0));
    visit("sinks", self.sinks);
    visit("mask", self.mask);
    visit("dropout", self.dropout, Print::kUnlessDefault, kFraction);
    visit("key", self.key, always_if(self.dropout > 0));
    visit("ring", self.ring, Print::kUnlessDefault, at_least(0));
    visit("visit", self.visit, Print::kUnlessDefault, between(0, static_cast<double>(self.ring)));
  }
  static void inputs(const Attention& a, auto&& slot) {
    slot(kQkv, 1);
    slot(kKv, a.separate_kv);
    slot(kBias, a.bias_distance > 0);
    slot(kSinks, a.sinks);
    slot(kMask, a.mask != Mask::kNothing);
    slot(kSamples, a.dropout > 0);
    slot(kStep, a.dropout > 0);
    slot(kPartOut, a.visit > 1);
    slot(kPartLse, a.visit > 1);
  }
  static const OpRule rule;
  bool operator==(const Attention&) const = default;
};

// Reads out and lse instead of sinks: the attribute of `of` is false.
struct AttentionGrad {
  static constexpr std::string_view kName = "attention_grad";
  // kPartDQkv: the gradient of the queries from the visits so far. The gradient of the keys has
  // terms of one visit; both are f32 if `of` is a visit.
  enum In { kQkv, kOut, kLse, kDOut, kKv, kBias, kMask, kSamples, kStep, kPartDQkv };
  enum Out { kDQkv, kDKv, kDBias };  // the gradient of the bias is added to
  Attention of = {};
  DType accum_dtype = DType::kF32;
  static void fields(auto& self, auto&& visit) {
    Attention::fields(self.of, visit);
    visit("accum_dtype", self.accum_dtype);
  }
  static void inputs(const AttentionGrad& a, auto&& slot) {
    for (const In required : {kQkv, kOut, kLse, kDOut}) slot(required, 1);
    slot(kKv, a.of.separate_kv);
    slot(kBias, a.of.bias_distance > 0);
    slot(kMask, a.of.mask != Mask::kNothing);
    slot(kSamples, a.of.dropout > 0);
    slot(kStep, a.of.dropout > 0);
    slot(kPartDQkv, a.of.visit > 1);
  }
  static void outputs(const AttentionGrad& a, auto&& slot) {
    slot(kDQkv, 1);
    slot(kDKv, a.of.separate_kv);
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
  DType accum_dtype = DType::kF32;
  static void fields(auto& self, auto&& visit) {
    visit("by_head", self.by_head);
    visit("accum_dtype", self.accum_dtype);
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
  int64_t value_width = 0;   // as Attention has it
  int64_t context = 0;       // C
  bool separate_kv = false;  // keys and values of the new tokens are an input of their own
  int64_t window = 0;
  double soft_cap = 0;
  int64_t bias_distance = 0;
  bool sinks = false;
  static void fields(auto& self, auto&& visit) {
    visit("scale", self.scale, Print::kAlways, kFinite);
    visit("value_width", self.value_width, Print::kUnlessDefault, at_least(0));
    visit("context", self.context, Print::kAlways, at_least(1));
    visit("separate_kv", self.separate_kv);
    visit("window", self.window, Print::kUnlessDefault, at_least(0));
    visit("soft_cap", self.soft_cap, Print::kUnlessDefault, kNotNegative);
    visit("bias_distance", self.bias_distance, Print::kUnlessDefault, at_least(0));
    visit("sinks", self.sinks);
  }
  static void inputs(const CachedAttention& a, auto&& slot) {
    slot(kQkv, 1);
    slot(kPositions, 1);
    slot(kKv, a.separate_kv);
    slot(kBias, a.bias_distance > 0);
    slot(kSinks, a.sinks);
  }
  static const OpRule rule;
  bool operator==(const CachedAttention&) const = default;
};

}  // namespace tessera

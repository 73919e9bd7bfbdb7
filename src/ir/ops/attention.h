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
// one key and one value. cap(s) = soft_cap · tanh(s / soft_cap), or s where soft_cap is 0.
struct Attention {
  static constexpr std::string_view kName = "attention";
  enum In {
    kQkv,
    kKv,    // keys and values of their own [B, S, K, 2, D]; the queries are then [B, T, K, G, D]
    kBias,  // a table of biases by distance [K·G, N]
    kMask,  // operand of the mask, i32; for documents with kKv those of the keys
    kSamples,
    kStep
  };
  enum Out { kOut, kLse };  // [B, T, K·G, D]; the log of each row's sum [B, K·G, T], f32
  double scale = 1;
  // Keys and values are an operand of their own: with `non_causal` those of another sequence, else
  // all those of this one. A rank may have some of its queries, whose places follow from their
  // sharding.
  bool separate_kv = false;
  bool non_causal = false;  // a query sees all keys, not only those up to its own place
  int64_t window = 0;       // a query sees this many keys up to its own place; 0: all of them
  double soft_cap = 0;
  int64_t bias_distance = 0;  // distances from this on have one bias; 0: there are no biases
  Mask mask = Mask::kNothing;
  double dropout = 0;
  int64_t key = 0;  // seed of the dropout mask
  static void fields(auto& self, auto&& visit) {
    visit("scale", self.scale, Print::kAlways, kFinite);
    visit("separate_kv", self.separate_kv);
    visit("non_causal", self.non_causal);
    visit("window", self.window, Print::kUnlessDefault, at_least(0));
    visit("soft_cap", self.soft_cap, Print::kUnlessDefault, kNotNegative);
    visit("bias_distance", self.bias_distance, Print::kUnlessDefault, at_least(0));
    visit("mask", self.mask);
    visit("dropout", self.dropout, Print::kUnlessDefault, kFraction);
    visit("key", self.key, always_if(self.dropout > 0));
  }
  static void inputs(const Attention& a, auto&& slot) {
    slot(kQkv, 1);
    slot(kKv, a.separate_kv);
    slot(kBias, a.bias_distance > 0);
    slot(kMask, a.mask != Mask::kNothing);
    slot(kSamples, a.dropout > 0);
    slot(kStep, a.dropout > 0);
  }
  static const OpRule rule;
  bool operator==(const Attention&) const = default;
};

struct AttentionGrad {
  static constexpr std::string_view kName = "attention_grad";
  enum In { kQkv, kOut, kLse, kDOut, kKv, kBias, kMask, kSamples, kStep };
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
  }
  static void outputs(const AttentionGrad& a, auto&& slot) {
    slot(kDQkv, 1);
    slot(kDKv, a.of.separate_kv);
    slot(kDBias, a.of.bias_distance > 0);
  }
  static const OpRule rule;
  bool operator==(const AttentionGrad&) const = default;
};

// Attention of T new tokens to those in the cache [B, C, 2, K, D] before them, which it extends.
struct CachedAttention {
  static constexpr std::string_view kName = "cached_attention";
  enum In { kQkv, kPositions, kKv, kBias };  // positions [B, T]: where the new tokens are
  enum Out { kOut, kCache };
  double scale = 1;
  int64_t context = 0;       // C
  bool separate_kv = false;  // keys and values of the new tokens are an input of their own
  int64_t window = 0;
  double soft_cap = 0;
  int64_t bias_distance = 0;
  static void fields(auto& self, auto&& visit) {
    visit("scale", self.scale, Print::kAlways, kFinite);
    visit("context", self.context, Print::kAlways, at_least(1));
    visit("separate_kv", self.separate_kv);
    visit("window", self.window, Print::kUnlessDefault, at_least(0));
    visit("soft_cap", self.soft_cap, Print::kUnlessDefault, kNotNegative);
    visit("bias_distance", self.bias_distance, Print::kUnlessDefault, at_least(0));
  }
  static void inputs(const CachedAttention& a, auto&& slot) {
    slot(kQkv, 1);
    slot(kPositions, 1);
    slot(kKv, a.separate_kv);
    slot(kBias, a.bias_distance > 0);
  }
  static const OpRule rule;
  bool operator==(const CachedAttention&) const = default;
};

}  // namespace tessera

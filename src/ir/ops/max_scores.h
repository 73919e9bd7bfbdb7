// The largest attention score of each key/value head, by which MuonClip scales the weights of
// queries and keys (Kimi Team 2025, "Kimi K2", section 2.1: QK-clip).
#pragma once

#include "ir/ops/fields.h"

namespace tessera {

// max_scores[k] = max(max_scores[k], max scale · q kᵀ) over the samples, the query heads of the
// group k, and the pairs of a query and a key that attention sees. The value is 0 at the start of a
// step, so scores below 0 count as 0. Scores are those before a soft cap.
struct MaxScores {
  static constexpr std::string_view kName = "max_scores";
  enum In {
    kQkv,        // packed qkv, or queries, as attention has them
    kKv,         // keys and values of their own [B, S, K, 2, D]
    kDocuments,  // document numbers [B, S]: keys of other documents are masked
  };
  enum Out { kMaxScores };  // [heads], f32
  double scale = 1;
  int64_t heads = 0;         // the model's key/value heads; a rank may have some of them
  bool separate_kv = false;  // as Attention has it: the queries may be divided among ranks
  int64_t window = 0;
  bool documents = false;
  static void fields(auto& self, auto&& visit) {
    visit("scale", self.scale, Print::kAlways, kFinite);
    visit("heads", self.heads, Print::kAlways, at_least(1));
    visit("separate_kv", self.separate_kv);
    visit("window", self.window, Print::kUnlessDefault, at_least(0));
    visit("documents", self.documents);
  }
  static void inputs(const MaxScores& a, auto&& slot) {
    slot(kQkv, 1);
    slot(kKv, a.separate_kv);
    slot(kDocuments, a.documents);
  }
  static const OpRule rule;
  bool operator==(const MaxScores&) const = default;
};

}  // namespace tessera

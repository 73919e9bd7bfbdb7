// Table lookup and its gradient.
#pragma once

#include "base/dtype.h"
#include "ir/ops/fields.h"

namespace tessera {

// y[b,t,:] = table[ids[b,t],:]
struct Embedding {
  static constexpr std::string_view kName = "embedding";
  enum In { kIds, kTable };  // [B, T] i32, [V, F]
  enum Out { kY };
  static void fields(auto&, auto&&) {}
  static const OpRule rule;
  bool operator==(const Embedding&) const = default;
};

// dtable[ids[b,t],:] += dy[b,t,:]
struct EmbeddingGrad {
  static constexpr std::string_view kName = "embedding_grad";
  enum In { kIds, kDy };
  enum Out { kDTable };
  int64_t rows = 0;                 // rows of the table
  DType accum_dtype = DType::kF32;  // dtype of the sum
  static void fields(auto& self, auto&& visit) {
    visit("rows", self.rows, Print::kAlways, at_least(1));
    visit("accum_dtype", self.accum_dtype);
  }
  static const OpRule rule;
  bool operator==(const EmbeddingGrad&) const = default;
};

}  // namespace tessera

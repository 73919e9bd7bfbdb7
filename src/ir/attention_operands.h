// Which operands attention and its gradient have, by their attributes; they stand in this order.
//   across          keys and values of another sequence [B, S, K, 2, D]
//   bias_distance   a table of biases by distance [K·G, N], f32 or bf16
//   seen            documents [B, T] or ids [B, S], i32: what hides keys (kernels/attention.h)
//   dropout         samples [B] and step
#pragma once

#include "ir/op.h"

namespace tessera {

struct AttentionOperands {
  int across = kNone, bias = kNone, seen = kNone, samples = kNone, step = kNone;
  int count = 0;  // of all, those before `first` too
};

// `first`: how many operands stand before them, the queries first.
AttentionOperands attention_operands(const Attributes& a, int first);

}  // namespace tessera

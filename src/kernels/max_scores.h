// The largest attention scores, for MuonClip (ir/ops/max_scores.h): for each key/value head k,
//   most[k] = max(most[k], max scale * q[i] . k[j])
// over the samples, the G query heads of the group, and each j that i sees (AttentionScope: causal,
// windows, documents). The result does not depend on the number of threads.
#pragma once

#include "kernels/attention.h"

namespace tessera::kernels {

struct MaxScoresArgs {
  TensorView qkv;   // [B, T, KV, G+2, D]; with kv [B, T, KV, G, D]
  TensorView most;  // [KV] f32, at least 0  raised
  float scale = 1;
  TensorView kv = {};         // [B, S, KV, 2, D]; no data: S = T
  AttentionScope scope = {};  // without soft_cap, ids and bias
};
void launch(Cpu, const Launch&, const MaxScoresArgs&);
void launch(Gpu, const Launch&, const MaxScoresArgs&);
int64_t workspace_bytes(Cpu, const MaxScoresArgs&, int threads);

}  // namespace tessera::kernels

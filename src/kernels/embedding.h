// Embedding lookup, and the gradient of the table.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

// The table may be a shard with rows first .. first+V-1 of `total`. An id must be in [0, total);
// ids of other shards give zero rows and no gradient.
struct TableRows {
  int64_t first = 0;
  int64_t total = 0;  // 0: V, the table is not sharded
};

struct EmbeddingArgs {
  TensorView ids;    // [N] i32
  TensorView table;  // [V, D] f32, bf16 or f16
  TensorView y;      // [N, D] f32, bf16 or f16  written
  TableRows rows = {};
};
void launch(Cpu, const Launch&, const EmbeddingArgs&);
void launch(Gpu, const Launch&, const EmbeddingArgs&);

// d_table[ids[n], :] += dy[n, :] for n in order, for any number of threads. In a 16-bit table, the
// f32 sum of all dy of a row is added and rounded once; on the CPU this needs a workspace.
struct EmbeddingGradArgs {
  TensorView ids;      // [N] i32
  TensorView dy;       // [N, D] f32, bf16 or f16
  TensorView d_table;  // [V, D] f32, bf16 or f16  added to
  TableRows rows = {};
};
void launch(Cpu, const Launch&, const EmbeddingGradArgs&);
void launch(Gpu, const Launch&, const EmbeddingGradArgs&);
int64_t workspace_bytes(Cpu, const EmbeddingGradArgs&, int threads);

}  // namespace tessera::kernels

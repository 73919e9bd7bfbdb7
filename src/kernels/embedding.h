// Rows of a table by number, and the gradient of the table.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace tessera::kernels {

// The table may be a part of a divided one: it holds rows first .. first+V-1 of `total`. An id
// must be in [0, total); ids of other parts give zero rows and no gradient.
struct TableRows {
  int64_t first = 0;
  int64_t total = 0;  // 0: V, the table is whole
};

void embedding(const TensorView& ids,    // [N] i32
               const TensorView& table,  // [V, D] f32, bf16 or f16
               const TensorView& y,      // [N, D] f32, bf16 or f16  written
               const TableRows& rows = {});

// d_table[ids[n], :] += dy[n, :] for n in order, whatever the number of threads. Of 16 bits, a row
// of the table takes the f32 sum of all its dy, rounded once; that needs a workspace.
int64_t embedding_grad_workspace_bytes(int64_t n, DType table);
void embedding_grad(const TensorView& ids,      // [N] i32
                    const TensorView& dy,       // [N, D] f32, bf16 or f16
                    const TensorView& d_table,  // [V, D] f32, bf16 or f16  added to
                    const TableRows& rows, void* workspace);

}  // namespace tessera::kernels

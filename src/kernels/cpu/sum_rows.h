// Helpers of kernels that add rows (sum, norm) or columns (bias gradients).
#pragma once

#include <cstdint>

#include "kernels/cpu/operand.h"
#include "kernels/sum.h"

namespace tessera::kernels {

struct SumRows {
  Source terms[kMaxTerms], biases[kMaxTerms];
  int term_count = 0, bias_count = 0;
  Sink out;
  int64_t d = 0;
};
// Returns the operands after checking their shapes. `what` is the op name for messages.
SumRows sum_rows(const SumArgs& a, const char* what);

// The number of rows per block in column sums. One thread sums a block into its partial row, and
// the partial rows are added in order, so the bits do not depend on the number of threads.
constexpr int64_t kBlockRows = 32;
constexpr int64_t row_blocks(int64_t rows) { return (rows + kBlockRows - 1) / kBlockRows; }

struct BlockSums {
  const float* partials;  // [blocks, stride]; the first d columns are used
  int64_t blocks, stride, d;
  Sink to;  // [d]  added to, rounded once
};
void add_block_sums(const BlockSums& a, int threads);

}  // namespace tessera::kernels

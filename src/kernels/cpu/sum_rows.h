// Shared by the kernels that add rows (sum, norm) or columns (the bias gradients).
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
// Checks the shapes. `what` is the op, for the message.
SumRows sum_rows(const SumArgs& a, const char* what);

// Column sums go by blocks of this many rows, each summed by one thread into its partial row;
// the partial rows are then added in order. So the bits do not depend on the threads.
constexpr int64_t kBlockRows = 32;
constexpr int64_t row_blocks(int64_t rows) { return (rows + kBlockRows - 1) / kBlockRows; }

struct BlockSums {
  const float* partials;  // [blocks, stride], of which the first d columns count
  int64_t blocks, stride, d;
  Sink to;  // [d]  added to, rounded once
};
void add_block_sums(const BlockSums& a, int threads);

}  // namespace tessera::kernels

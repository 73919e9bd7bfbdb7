// Sums of activations, and column sums for the gradients of biases. Each block of kBlockRows rows
// is summed into a partial row, and the partial rows are added in the order of blocks: this is
// parallel over rows, but the bits do not depend on the number of threads.
#include "kernels/sum.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/sum_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/sum_simd.h"

namespace tessera::kernels {

HWY_EXPORT(AddRows);
HWY_EXPORT(SumColumns);
HWY_EXPORT(AddPartials);

SumRows sum_rows(const SumArgs& a, const char* what) {
  CHECK(!a.terms.empty(), "{} without terms", what);
  SumRows s;
  s.out = a.out;
  s.d = columns_of(a.out);
  for (const TensorView& t : a.terms) {
    CHECK(t.elements() == a.out.elements() && columns_of(t) == s.d,
          "{}: a term is {}, but the sum is {}", what, to_string(t.shape), to_string(a.out.shape));
    s.terms[s.term_count++] = t;
  }
  for (const TensorView& b : a.biases) {
    CHECK(b.elements() == s.d, "{}: a bias is {}, but the sum is {}", what, to_string(b.shape),
          to_string(a.out.shape));
    s.biases[s.bias_count++] = b;
  }
  return s;
}

void launch(Cpu, const Launch& l, const SumArgs& a) {
  const SumRows s = sum_rows(a, "sum");
  const auto add = &HWY_DYNAMIC_DISPATCH(AddRows);
  parallel_rows(rows_of(a.out), s.d, l.threads,
                [&](int64_t begin, int64_t end) { add(s, begin, end); });
}

void add_block_sums(const BlockSums& a, int threads) {
  const auto add = &HWY_DYNAMIC_DISPATCH(AddPartials);
  // Columns are divided among threads; each adds all partial rows of its columns.
  const int64_t grain = kGrainElements / (a.blocks + 1) + 64;
  parallel_ranges(a.d, grain, threads, [&](int64_t begin, int64_t end) { add(a, begin, end); });
}

int64_t workspace_bytes(Cpu, const BiasGradArgs& a, int) {
  return bytes_for<float>(row_blocks(rows_of(a.dy)) * columns_of(a.dy));
}

void launch(Cpu, const Launch& l, const BiasGradArgs& a) {
  const TensorView &dy = a.dy, &dbias = a.dbias;
  const int64_t d = columns_of(dy), rows = rows_of(dy), blocks = row_blocks(rows);
  CHECK(dbias.elements() == d, "bias_grad: dy {}, dbias {}", to_string(dy.shape),
        to_string(dbias.shape));
  const Source from(dy);
  const auto partials = l.room<float>();
  const auto sum_columns = &HWY_DYNAMIC_DISPATCH(SumColumns);
  parallel_rows(blocks, kBlockRows * d, l.threads, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      sum_columns(from, d, b * kBlockRows, std::min(rows, (b + 1) * kBlockRows), partials + b * d);
    }
  });
  add_block_sums({partials, blocks, d, d, dbias}, l.threads);
}

}  // namespace tessera::kernels

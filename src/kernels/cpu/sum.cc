#include "kernels/sum.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/sum_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/sum_simd.h"

namespace tessera::kernels {

HWY_EXPORT(AddRows);
HWY_EXPORT(SumColumns);
HWY_EXPORT(AddPartials);

SumRows sum_rows(std::span<const TensorView> terms, std::span<const TensorView> biases,
                 const TensorView& out, const char* what) {
  CHECK(!terms.empty() && terms.size() <= kMaxTerms && biases.size() <= kMaxTerms,
        "{} of {} terms and {} biases", what, terms.size(), biases.size());
  SumRows a;
  a.out = out;
  a.d = columns_of(out);
  for (const TensorView& t : terms) {
    CHECK(t.elements() == out.elements() && columns_of(t) == a.d, "{}: a term is {}, the sum {}",
          what, to_string(t.shape), to_string(out.shape));
    a.terms[a.term_count++] = t;
  }
  for (const TensorView& b : biases) {
    CHECK(b.elements() == a.d, "{}: a bias is {}, the sum {}", what, to_string(b.shape),
          to_string(out.shape));
    a.biases[a.bias_count++] = b;
  }
  return a;
}

void sum(std::span<const TensorView> terms, std::span<const TensorView> biases,
         const TensorView& out) {
  const SumRows a = sum_rows(terms, biases, out, "sum");
  const auto add = &HWY_DYNAMIC_DISPATCH(AddRows);
  parallel_rows(rows_of(out), a.d, [&](int64_t begin, int64_t end) { add(a, begin, end); });
}

void add_block_sums(const BlockSums& a) {
  const auto add = &HWY_DYNAMIC_DISPATCH(AddPartials);
  const int64_t grain = kGrainElements / (a.blocks + 1) + 64;
  parallel_ranges(a.d, grain, [&](int64_t begin, int64_t end) { add(a, begin, end); });
}

int64_t bias_grad_workspace_bytes(int64_t n, int64_t d) {
  return row_blocks(n) * d * static_cast<int64_t>(sizeof(float));
}

void bias_grad(const TensorView& dy, const TensorView& dbias, void* workspace) {
  const int64_t d = columns_of(dy), rows = rows_of(dy), blocks = row_blocks(rows);
  CHECK(dbias.elements() == d, "bias_grad of {} into {}", to_string(dy.shape),
        to_string(dbias.shape));
  const Source from(dy);
  const auto partials = static_cast<float*>(workspace);
  const auto sum_columns = &HWY_DYNAMIC_DISPATCH(SumColumns);
  parallel_rows(blocks, kBlockRows * d, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      sum_columns(from, d, b * kBlockRows, std::min(rows, (b + 1) * kBlockRows), partials + b * d);
    }
  });
  add_block_sums({partials, blocks, d, d, dbias});
}

}  // namespace tessera::kernels

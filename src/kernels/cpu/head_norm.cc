// RMS norm of queries and keys on the CPU, parallel over tokens. The gradient runs by blocks of
// tokens: each block sums its part of the gains' gradients into its own partial row, and the rows
// are added in order, so the bits do not depend on the number of threads.
#include "kernels/head_norm.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/head_norm_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/head_norm_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(NormalizeHeads);
HWY_EXPORT(HeadNormGradBlock);
HWY_EXPORT(SumSquaresOfHeads);
HWY_EXPORT(AddSquaresGrad);

namespace {

HeadNormRows heads_of(const TensorView& qkv) {
  CHECK(qkv.shape.rank() == 5 && qkv.shape[3] > 2, "the norm of heads in {}", to_string(qkv.shape));
  HeadNormRows rows;
  rows.qkv = qkv;
  rows.kv = qkv.shape[2];
  rows.slots = qkv.shape[3];
  rows.d = qkv.shape[4];
  return rows;
}

int64_t tokens_of(const TensorView& qkv) { return qkv.shape.product(0, 2); }
int64_t width_of(const HeadNormRows& a) { return a.kv * a.slots * a.d; }

HeadNormRows rows_of(const HeadNorm& n) {
  HeadNormRows rows = heads_of(n.qkv);
  const bool whole = n.squares.data != nullptr;
  const int64_t K = rows.kv, G = rows.slots - 2, D = rows.d;
  CHECK(n.query_gain.elements() == (whole ? K * G * D : D) &&
            n.key_gain.elements() == (whole ? K * D : D),
        "the norm of heads in {} with gains {} and {}", to_string(n.qkv.shape),
        to_string(n.query_gain.shape), to_string(n.key_gain.shape));
  CHECK(!whole || (n.query_count > 0 && n.key_count > 0), "squares of {} and {} numbers",
        n.query_count, n.key_count);
  rows.query_gain = n.query_gain;
  rows.key_gain = n.key_gain;
  rows.squares = whole ? n.squares.f32() : nullptr;
  rows.query_share = 1.0f / static_cast<float>(whole ? n.query_count : D);
  rows.key_share = 1.0f / static_cast<float>(whole ? n.key_count : D);
  rows.epsilon = n.epsilon;
  rows.offset = n.unit_offset ? 1 : 0;
  return rows;
}

int64_t gains_of(const HeadNormGradArgs& a) {
  return a.norm.query_gain.elements() + a.norm.key_gain.elements();
}

}  // namespace

void launch(Cpu, const Launch& l, const HeadNormArgs& a) {
  const HeadNormRows rows = rows_of(a.norm);
  const auto run = &HWY_DYNAMIC_DISPATCH(NormalizeHeads);
  const Sink y(a.y);
  parallel_rows(tokens_of(a.norm.qkv), width_of(rows), l.threads,
                [&](int64_t begin, int64_t end) { run(rows, y, begin, end); });
}

int64_t workspace_bytes(Cpu, const HeadNormGradArgs& a, int) {
  return bytes_for<float>(row_blocks(tokens_of(a.norm.qkv)) * gains_of(a));
}

void launch(Cpu, const Launch& l, const HeadNormGradArgs& a) {
  HeadNormGradRows g;
  g.norm = rows_of(a.norm);
  g.dy = a.dy;
  g.dx = a.dx;
  g.d_squares = a.d_squares ? a.d_squares.f32() : nullptr;
  g.partials = l.room<float>();
  g.query_gains = a.norm.query_gain.elements();
  g.gains = gains_of(a);
  g.tokens = tokens_of(a.norm.qkv);
  const int64_t blocks = row_blocks(g.tokens), keys = g.gains - g.query_gains;
  const auto run = &HWY_DYNAMIC_DISPATCH(HeadNormGradBlock);
  parallel_rows(blocks, kBlockRows * width_of(g.norm), l.threads, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) run(g, b);
  });
  add_block_sums({g.partials, blocks, g.gains, g.query_gains, a.d_query_gain}, l.threads);
  add_block_sums({g.partials + g.query_gains, blocks, g.gains, keys, a.d_key_gain}, l.threads);
}

void launch(Cpu, const Launch& l, const HeadSquaresArgs& a) {
  const HeadNormRows rows = heads_of(a.qkv);
  const auto run = &HWY_DYNAMIC_DISPATCH(SumSquaresOfHeads);
  parallel_rows(tokens_of(a.qkv), width_of(rows), l.threads,
                [&](int64_t begin, int64_t end) { run(rows, a.squares.f32(), begin, end); });
}

void launch(Cpu, const Launch& l, const HeadSquaresGradArgs& a) {
  HeadNormRows rows = heads_of(a.qkv);
  rows.squares = a.d_squares.f32();
  const auto run = &HWY_DYNAMIC_DISPATCH(AddSquaresGrad);
  const Sink dx(a.dx);
  parallel_rows(tokens_of(a.qkv), width_of(rows), l.threads,
                [&](int64_t begin, int64_t end) { run(rows, dx, begin, end); });
}

}  // namespace tessera::kernels

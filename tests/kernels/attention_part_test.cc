// Attention of a part of the queries, from first_query on, to the keys of the whole sequence.
#include "kernels/attention.h"

#include "base/error.h"
#include "tests/kernels/attention_reference.h"

namespace tessera::kernels {
namespace {

// Returns slots [first, first + count) of rows [begin, begin + rows) of [B, T, KV, slots, D].
Array cut(const Array& a, int64_t begin, int64_t rows, int64_t first, int64_t count) {
  const Shape& s = a.shape();
  Array part({s[0], rows, s[2], count, s[4]});
  int64_t at = 0;
  for (int64_t b = 0; b < s[0]; ++b)
    for (int64_t t = begin; t < begin + rows; ++t)
      for (int64_t kv = 0; kv < s[2]; ++kv)
        for (int64_t i = 0; i < count * s[4]; ++i)
          part.set(at++, a.at((((b * s[1] + t) * s[2] + kv) * s[3] + first) * s[4] + i));
  return part;
}

std::vector<double> numbers(const Array& a) {
  std::vector<double> all;
  for (int64_t i = 0; i < a.size(); ++i) all.push_back(a.at(i));
  return all;
}

// A sequence whose queries are divided into `parts`: each part computes the rows that the whole
// does, and the gradients of keys and values add up to those of the whole.
void compare_parts(const AttentionSizes& z, int64_t parts, const AttentionScope& whole_scope,
                   AttentionDropout drop = {}) {
  SCOPED_TRACE(fmt::format("T {} in {} parts, window {}", z.t, parts, whole_scope.window));
  const Array qkv = Array::random(z.qkv(), 1), d_out = Array::random(z.out(), 2);
  const Array out(z.out()), lse({z.b, z.heads(), z.t}), d_qkv(z.qkv());
  compute(AttentionArgs{qkv, out, lse, 0.3f, drop, {}, whole_scope}, 2);
  compute(AttentionGradArgs{qkv, out, lse, d_out, d_qkv, 0.3f, drop, {}, {}, whole_scope}, 2);
  const Array kv = cut(qkv, 0, z.t, z.g, 2);
  std::vector<double> sum(static_cast<size_t>(kv.size()));
  const int64_t rows = z.t / parts;
  const auto per_head = [&](const Array& a, int64_t begin) {
    Array packed({z.b, z.t, z.kv, z.g, z.d});
    std::memcpy(packed.data(), a.data(), static_cast<size_t>(a.view().bytes()));
    return cut(packed, begin, rows, 0, z.g);
  };
  for (int64_t part = 0; part < parts; ++part) {
    AttentionScope scope = whole_scope;
    scope.first_query = drop.first_query = part * rows;
    drop.queries = z.t;
    const Array q = cut(qkv, part * rows, rows, 0, z.g), d_out_part = per_head(d_out, part * rows);
    const Shape rows_shape{z.b, rows, z.heads(), z.d};
    const Array out_part(rows_shape), lse_part({z.b, z.heads(), rows}), d_q(q.shape());
    const Array d_kv(kv.shape());
    const TensorView d_rows = {d_out_part.data(), DType::kF32, rows_shape};
    compute(AttentionArgs{q, out_part, lse_part, 0.3f, drop, kv, scope}, 2);
    compute(AttentionGradArgs{q, out_part, lse_part, d_rows, d_q, 0.3f, drop, kv, d_kv, scope}, 2);
    EXPECT_LT(distance(out_part, numbers(per_head(out, part * rows))), 1e-6) << part;
    EXPECT_LT(distance(d_q, numbers(cut(d_qkv, part * rows, rows, 0, z.g))), 1e-6) << part;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += d_kv.at(static_cast<int64_t>(i));
  }
  EXPECT_LT(distance(cut(d_qkv, 0, z.t, z.g, 2), sum), 1e-6);
}

// [B, T] documents that end at token 20, near token 200, and at the end.
Array three_documents(const AttentionSizes& z) {
  Array documents({z.b, z.t}, DType::kI32);
  for (int64_t i = 0; i < z.b * z.t; ++i)
    documents.set(i, i % z.t < 20 ? 0 : i % z.t < 200 + i / z.t ? 1 : 2);
  return documents;
}

// A sequence in blocks of queries and of keys. Each block of queries attends to its own block and
// then continues with earlier ones, and the gradients add up, as on the ranks of a ring.
void compare_blocks(const AttentionSizes& z, int64_t blocks, const AttentionScope& whole_scope,
                    AttentionDropout drop = {}, const TensorView& sinks = {}) {
  SCOPED_TRACE(fmt::format("T {} in {} blocks, window {}", z.t, blocks, whole_scope.window));
  const Array qkv = Array::random(z.qkv(), 1), d_out = Array::random(z.out(), 2);
  const Array out(z.out()), lse({z.b, z.heads(), z.t}), d_qkv(z.qkv());
  compute(AttentionArgs{qkv, out, lse, 0.3f, drop, {}, whole_scope, sinks}, 2);
  compute(AttentionGradArgs{qkv, out, lse, d_out, d_qkv, 0.3f, drop, {}, {}, whole_scope}, 2);
  const int64_t rows = z.t / blocks;
  const auto per_head = [&](const Array& a, int64_t begin) {
    Array packed({z.b, z.t, z.kv, z.g, z.d});
    std::memcpy(packed.data(), a.data(), static_cast<size_t>(a.view().bytes()));
    return cut(packed, begin, rows, 0, z.g);
  };
  std::vector<Array> kv, d_kv;
  for (int64_t k = 0; k < blocks; ++k) {
    kv.push_back(cut(qkv, k * rows, rows, z.g, 2));
    d_kv.emplace_back(kv[0].shape());
  }
  drop.queries = drop.keys = z.t;
  for (int64_t block = 0; block < blocks; ++block) {
    AttentionScope scope = whole_scope;
    scope.tokens = z.t;
    scope.first_query = drop.first_query = block * rows;
    const Array q = cut(qkv, block * rows, rows, 0, z.g), d_part = per_head(d_out, block * rows);
    const Shape shape{z.b, rows, z.heads(), z.d};
    const Array out_part(shape), lse_part({z.b, z.heads(), rows}), d_q(q.shape());
    const TensorView d_rows = {d_part.data(), DType::kF32, shape};
    for (int64_t k = block; k >= 0; --k) {
      scope.first_key = drop.first_key = k * rows;
      AttentionArgs a{q, out_part, lse_part, 0.3f, drop, kv[k], scope};
      if (k == block) a.sinks = sinks;
      a.continues = k < block;
      compute(a, 2);
    }
    EXPECT_LT(distance(out_part, numbers(per_head(out, block * rows))), 1e-6) << block;
    for (int64_t k = block; k >= 0; --k) {
      scope.first_key = drop.first_key = k * rows;
      AttentionGradArgs a{q, out_part, lse_part, d_rows, d_q, 0.3f, drop, kv[k], d_kv[k], scope};
      a.add = true;
      compute(a, 2);
    }
    EXPECT_LT(distance(d_q, numbers(cut(d_qkv, block * rows, rows, 0, z.g))), 2e-6) << block;
  }
  for (int64_t k = 0; k < blocks; ++k)
    EXPECT_LT(distance(d_kv[k], numbers(cut(d_qkv, k * rows, rows, z.g, 2))), 2e-6) << k;
}

TEST(AttentionPart, ContinuesFromBlockToBlock) {
  for_every_target([] {
    for (const auto& [tokens, blocks] :
         {std::pair{128, 2}, {256, 4}, {96, 2}, {130, 2}, {30, 3}, {8, 8}})
      compare_blocks({2, tokens, 2, 2, 16}, blocks, {});
    Array sinks({4});
    for (int64_t h = 0; h < 4; ++h) sinks.set(h, static_cast<double>(h) - 2);
    compare_blocks({1, 120, 2, 2, 24}, 3, {}, {}, sinks);
  });
}

TEST(AttentionPart, ContinuesWithinMasks) {
  for (const int64_t window : {1, 5, 64, 70, 100, 180}) {
    AttentionScope scope;
    scope.window = window;
    compare_blocks({1, 204, 1, 2, 24}, 4, scope);
  }
  const AttentionSizes z{2, 240, 1, 2, 16};
  const Array documents = three_documents(z);
  AttentionScope scope;
  scope.documents = documents;
  compare_blocks(z, 4, scope);
  scope.window = 30;
  scope.soft_cap = 2;
  compare_blocks(z, 3, scope);
  Array samples({2}, DType::kI64);
  samples.set(1, 7);
  compare_blocks({2, 96, 2, 1, 16}, 4, {}, {{.probability = 0.3f, .key = 5}, samples, 4});
}

TEST(AttentionPart, EqualsTheRowsOfTheWhole) {
  for_every_target([] {
    for (const auto& [tokens, parts] :
         {std::pair{128, 2}, {256, 4}, {96, 2}, {130, 2}, {30, 3}, {8, 8}})
      compare_parts({2, tokens, 2, 2, 16}, parts, {});
  });
}

TEST(AttentionPart, WithAWindowOrASoftCap) {
  for (const int64_t window : {1, 5, 64, 70, 100}) {
    AttentionScope scope;
    scope.window = window;
    compare_parts({1, 204, 1, 2, 24}, 4, scope);
  }
  AttentionScope scope;
  scope.soft_cap = 2;
  compare_parts({1, 150, 1, 2, 16}, 3, scope);
}

// Some documents end within a part, one covers several parts.
TEST(AttentionPart, WithinDocuments) {
  const AttentionSizes z{2, 240, 1, 2, 16};
  const Array documents = three_documents(z);
  AttentionScope scope;
  scope.documents = documents;
  compare_parts(z, 4, scope);
  scope.window = 30;
  compare_parts(z, 3, scope);
}

TEST(AttentionPart, DropsTheSameProbabilities) {
  Array samples({2}, DType::kI64);
  samples.set(1, 7);
  compare_parts({2, 90, 2, 1, 16}, 3, {}, {{.probability = 0.3f, .key = 5}, samples, 4});
}

}  // namespace
}  // namespace tessera::kernels

#include "kernels/attention.h"

#include "base/error.h"
#include "tests/kernels/attention_reference.h"

namespace tessera::kernels {
namespace {

void compare(const AttentionSizes& z, DType t, const AttentionDropout& drop = {},
             const AttentionLimits& limits = {}) {
  SCOPED_TRACE(fmt::format("B {} T {} KV {} G {} D {} {} window {} cap {}", z.b, z.t, z.kv, z.g,
                           z.d, name_of(t), limits.window, limits.soft_cap));
  const float scale = 1 / std::sqrt(static_cast<float>(z.d));
  const Array qkv = Array::random(z.qkv(), 1, t, 3), d_out = Array::random(z.out(), 2, t);
  const Array out(z.out(), t), lse({z.b, z.heads(), z.t}), d_qkv(z.qkv(), t);
  AttentionScope scope;
  scope.window = limits.window;
  scope.soft_cap = static_cast<float>(limits.soft_cap);
  compute(AttentionArgs{qkv, out, lse, scale, drop, {}, scope}, 2);
  compute(AttentionGradArgs{qkv, out, lse, d_out, d_qkv, scale, drop, {}, {}, scope}, 2);
  const AttentionAnswer a =
      attention_reference(z, qkv, d_out, static_cast<double>(scale), drop, limits);
  EXPECT_LT(distance(out, a.out), tolerance(t));
  EXPECT_LT(distance(lse, a.lse), 1e-6);
  EXPECT_LT(distance(d_qkv, a.d_qkv), t == DType::kBF16 ? 6e-3 : 2e-6);
}

TEST(Attention, MatchesTheFormulaInAllSizes) {
  for_every_target([] {
    for (const int64_t d : {8, 24, 32, 64, 80, 96, 128, 256})
      compare({1, 70, 1, 1, d}, DType::kF32);
    for (const int64_t t : {1, 2, 3, 15, 16, 17, 63, 64, 65, 129}) {
      compare({1, t, 2, 1, 16}, DType::kF32);
    }
    compare({2, 66, 2, 1, 40}, DType::kBF16);
  });
}

TEST(Attention, GroupsShareTheirKeyAndValue) {
  for_every_target([] {
    compare({2, 67, 2, 3, 16}, DType::kF32);
    compare({1, 30, 1, 4, 64}, DType::kBF16);
  });
}

TEST(Attention, AWindowEndsWhatAQuerySees) {
  for_every_target([] {
    for (const int64_t window : {1, 2, 16, 63, 64, 65, 100, 200})
      compare({1, 150, 1, 2, 16}, DType::kF32, {}, {.window = window});
    compare({2, 130, 2, 1, 40}, DType::kBF16, {}, {.window = 70});
  });
}

TEST(Attention, ASoftCapBendsScores) {
  for_every_target([] {
    for (const double cap : {0.5, 2.0, 50.0})
      compare({1, 70, 2, 2, 16}, DType::kF32, {}, {.soft_cap = cap});
    compare({1, 150, 1, 2, 16}, DType::kF32, {}, {.window = 20, .soft_cap = 1});
  });
}

TEST(Attention, AWindowWithinDocuments) {
  const AttentionSizes z{1, 150, 1, 1, 16};
  const Array qkv = Array::random(z.qkv(), 1), d_out = Array::random(z.out(), 2);
  Array documents({1, z.t}, DType::kI32);
  for (int64_t i = 0; i < z.t; ++i) documents.set(i, static_cast<double>(i / 40));
  // Within a document of 40 tokens a window of 40 hides nothing.
  const auto run = [&](int64_t window) {
    Array out(z.out()), lse({1, 1, z.t}), d_qkv(z.qkv());
    AttentionScope scope;
    scope.documents = documents;
    scope.window = window;
    compute(AttentionArgs{qkv, out, lse, 0.5f, {}, {}, scope}, 1);
    compute(AttentionGradArgs{qkv, out, lse, d_out, d_qkv, 0.5f, {}, {}, {}, scope}, 1);
    std::vector<double> numbers;
    for (int64_t i = 0; i < d_qkv.size(); ++i) numbers.push_back(d_qkv.at(i));
    return std::pair(std::move(d_qkv), numbers);
  };
  EXPECT_LT(distance(run(40).first, run(0).second), 1e-6);
  EXPECT_GT(distance(run(10).first, run(0).second), 0.01);
}

TEST(Attention, DropoutIsTheStatedFunctionOfSampleHeadAndPlace) {
  for_every_target([] {
    Array samples({2}, DType::kI64);
    samples.set(0, 12);
    samples.set(1, 1e10);
    const AttentionDropout drop{{.probability = 0.25f, .key = 99}, samples, 5};
    compare({2, 70, 2, 1, 16}, DType::kF32, drop);
    compare({2, 33, 1, 2, 16}, DType::kF32, drop);
  });
}

TEST(Attention, LargeScoresStayFinite) {
  const AttentionSizes z{1, 130, 1, 1, 32};
  const Array qkv = Array::random(z.qkv(), 1, DType::kF32, 60), d_out = Array::random(z.out(), 2);
  const Array out(z.out()), lse({1, 1, z.t}), d_qkv(z.qkv());
  compute(AttentionArgs{qkv, out, lse, 1, {}}, 1);
  compute(AttentionGradArgs{qkv, out, lse, d_out, d_qkv, 1, {}}, 1);
  for (int64_t i = 0; i < d_qkv.size(); ++i) ASSERT_TRUE(std::isfinite(d_qkv.at(i)));
}

TEST(Attention, NotANumberStaysVisible) {
  const AttentionSizes z{1, 100, 1, 1, 16};
  Array qkv = Array::random(z.qkv(), 1);
  qkv.set(z.at(0, 80, 0, 1, 3), std::nan(""));  // a key
  const Array out(z.out());
  compute(AttentionArgs{qkv, out, {}, 1, {}}, 1);
  EXPECT_TRUE(std::isfinite(out.at(79 * 16)));
  EXPECT_TRUE(std::isnan(out.at(80 * 16)));
  EXPECT_TRUE(std::isnan(out.at(99 * 16)));
}

TEST(Attention, ThreadsDoNotChangeTheBits) {
  const AttentionSizes z{2, 100, 3, 2, 32};
  const Array qkv = Array::random(z.qkv(), 1), d_out = Array::random(z.out(), 2);
  const auto run = [&](int threads) {
    const Array out(z.out()), lse({z.b, z.heads(), z.t});
    Array d_qkv(z.qkv());
    compute(AttentionArgs{qkv, out, lse, 0.2f, {}}, threads);
    compute(AttentionGradArgs{qkv, out, lse, d_out, d_qkv, 0.2f, {}}, threads);
    return d_qkv;
  };
  const Array one = run(1);
  for (const int threads : {2, 3, 6}) EXPECT_TRUE(one.same_bits(run(threads)));
}

void compare_pieces(int64_t window) {
  for_every_target([=] {
    for (const DType t : {DType::kF32, DType::kBF16, DType::kF16}) {
      const AttentionSizes z{2, 75, 2, 2, 24};
      const int64_t capacity = 80, row = z.kv * (z.g + 2) * z.d;
      const Array qkv = Array::random(z.qkv(), 1, t, 2), d_out(z.out());
      const Array cache({z.b, capacity, 2, z.kv, z.d}, t);
      const AttentionLimits limits = {.window = window, .soft_cap = window > 0 ? 2.0 : 0.0};
      const AttentionAnswer a = attention_reference(z, qkv, d_out, 0.25, {}, limits);
      int64_t start = 0;
      for (const int64_t n : {66, 1, 1, 5, 1, 1}) {
        Array piece({z.b, n, z.kv, z.g + 2, z.d}, t);
        for (int64_t i = 0; i < piece.size(); ++i) {
          const int64_t s = i / (n * row);
          piece.set(i, qkv.at(s * z.t * row + start * row + i % (n * row)));
        }
        const Array out({z.b, n, z.heads(), z.d}, t);
        const std::vector<int32_t> places(z.b * n, static_cast<int32_t>(start));
        CachedAttentionArgs args{piece, cache, places.data(), out, 0.25f};
        args.window = window;
        args.soft_cap = static_cast<float>(limits.soft_cap);
        compute(args, 2);
        std::vector<double> expected;
        const int64_t width = z.heads() * z.d;
        for (int64_t i = 0; i < out.size(); ++i) {
          const int64_t s = i / (n * width);
          const int64_t at = s * z.t * width + start * width + i % (n * width);
          expected.push_back(a.out[static_cast<size_t>(at)]);
        }
        EXPECT_LT(distance(out, expected), tolerance(t)) << start;
        start += n;
      }
      ASSERT_EQ(start, z.t);
    }
  });
}

TEST(CachedAttention, InPiecesEqualsAllAtOnce) { compare_pieces(0); }
TEST(CachedAttention, InPiecesEqualsAllAtOnceWithAWindowAndASoftCap) {
  for (const int64_t window : {1, 9, 70}) compare_pieces(window);
}

// Sequences of different lengths: each has the bits that it has alone.
TEST(CachedAttention, AtDifferentPositionsEqualsEachSequenceAlone) {
  for_every_target([] {
    const int64_t heads = 2, group = 3, size = 24, capacity = 40;
    const Array qkv = Array::random({3, 1, heads, group + 2, size}, 1);
    const std::vector<int32_t> positions = {31, 0, 7};
    const Array together = Array::random({3, capacity, 2, heads, size}, 2);
    const Array out({3, 1, heads * group, size});
    const auto part = [](const Array& of, int64_t b) {
      Shape shape = of.shape();
      shape[0] = 1;
      Array one(shape);
      for (int64_t i = 0; i < one.size(); ++i) one.set(i, of.at(b * one.size() + i));
      return one;
    };
    std::vector<Array> caches;
    for (int64_t b = 0; b < 3; ++b) caches.push_back(part(together, b));
    CachedAttentionArgs all{qkv, together, positions.data(), out, 0.25f};
    compute(all, 2);
    for (int64_t b = 0; b < 3; ++b) {
      const Array expected({1, 1, heads * group, size}), one = part(qkv, b);
      const Array& cache = caches[static_cast<size_t>(b)];
      CachedAttentionArgs a{one, cache, &positions[static_cast<size_t>(b)], expected, 0.25f};
      compute(a);
      EXPECT_TRUE(part(out, b).same_bits(expected)) << b;
      EXPECT_TRUE(part(together, b).same_bits(cache)) << b;
    }
  });
}

// Keys and values of their own and a bias by distance, as T5's decoder has them.
TEST(CachedAttention, ApartAndWithABiasInPiecesEqualsAllAtOnce) {
  for_every_target([] {
    const int64_t batch = 2, tokens = 75, heads = 3, size = 16, capacity = 80, buckets = 16;
    const Array q = Array::random({batch, tokens, heads, 1, size}, 1);
    const Array kv = Array::random({batch, tokens, heads, 2, size}, 2);
    const Array bias = Array::random({heads, buckets}, 3);
    const Array whole({batch, tokens, heads, size}), cache({batch, capacity, 2, heads, size});
    AttentionArgs all{q, whole, {}, 0.5f};
    all.kv = kv;
    all.scope.bias = bias;
    all.scope.bias_distance = 40;
    compute(all);
    int64_t start = 0;
    for (const int64_t n : {66, 1, 1, 5, 1, 1}) {
      const auto piece = [&](const Array& from, int64_t row) {
        Array out({batch, n, heads, row / (heads * size), size});
        for (int64_t i = 0; i < out.size(); ++i)
          out.set(i, from.at(i / (n * row) * tokens * row + start * row + i % (n * row)));
        return out;
      };
      const Array pq = piece(q, heads * size), pkv = piece(kv, 2 * heads * size);
      const Array out({batch, n, heads, size});
      const std::vector<int32_t> places(batch * n, static_cast<int32_t>(start));
      CachedAttentionArgs c{pq, cache, places.data(), out, 0.5f};
      c.kv = pkv;
      c.bias = bias;
      c.bias_distance = 40;
      compute(c, 2);
      std::vector<double> expected;
      const int64_t width = heads * size;
      for (int64_t i = 0; i < out.size(); ++i)
        expected.push_back(
            whole.at(i / (n * width) * tokens * width + start * width + i % (n * width)));
      EXPECT_LT(distance(out, expected), tolerance(DType::kF32)) << start;
      start += n;
    }
  });
}

}  // namespace
}  // namespace tessera::kernels

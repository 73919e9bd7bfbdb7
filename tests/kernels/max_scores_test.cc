// The largest attention scores against plain loops in double.
#include <algorithm>

#include "tests/kernels/attention_reference.h"

namespace tessera::kernels {
namespace {

struct Limits {
  int64_t window = 0, document = 0;  // tokens of a document; 0: one document per sample
};

// The largest scores of queries [first, first + count) of each group.
std::vector<double> reference(const AttentionSizes& z, const Array& qkv, double scale,
                              const Limits& limits, int64_t first, int64_t count) {
  std::vector<double> most(static_cast<size_t>(z.kv), 0);
  const auto sees = [&](int64_t i, int64_t j) {
    return (limits.window == 0 || j > i - limits.window) &&
           (limits.document == 0 || i / limits.document == j / limits.document);
  };
  for (int64_t b = 0; b < z.b; ++b)
    for (int64_t kv = 0; kv < z.kv; ++kv)
      for (int64_t g = 0; g < z.g; ++g)
        for (int64_t i = first; i < first + count; ++i)
          for (int64_t j = 0; j <= i; ++j) {
            double dot = 0;
            for (int64_t c = 0; c < z.d; ++c)
              dot += qkv.at(z.at(b, i, kv, g, c)) * qkv.at(z.at(b, j, kv, z.g, c));
            double& own = most[static_cast<size_t>(kv)];
            if (sees(i, j)) own = std::max(own, scale * dot);
          }
  return most;
}

void compare(const AttentionSizes& z, DType t, const Limits& limits = {}) {
  SCOPED_TRACE(fmt::format("B {} T {} KV {} G {} D {} {} window {} document {}", z.b, z.t, z.kv,
                           z.g, z.d, name_of(t), limits.window, limits.document));
  const Array qkv = Array::random(z.qkv(), 1, t, 3), most({z.kv});
  MaxScoresArgs args{qkv, most, 0.4f};
  args.scope.window = limits.window;
  Array documents({z.b, z.t}, DType::kI32);
  for (int64_t i = 0; limits.document > 0 && i < documents.size(); ++i)
    documents.set(i, static_cast<double>(i % z.t / limits.document));
  if (limits.document > 0) args.scope.documents = documents;
  compute(args, 2);
  const double scale = static_cast<double>(0.4f);
  EXPECT_LT(distance(most, reference(z, qkv, scale, limits, 0, z.t)), 1e-6);
}

TEST(MaxScores, EqualTheLoopsInAllSizes) {
  for_every_target([] {
    for (const int64_t t : {1, 2, 17, 63, 64, 65, 130}) compare({2, t, 2, 1, 16}, DType::kF32);
    compare({1, 70, 3, 4, 96}, DType::kF32);
    compare({2, 66, 2, 2, 40}, DType::kBF16);
    compare({1, 150, 1, 2, 16}, DType::kF32, {.window = 20});
    compare({2, 150, 1, 2, 16}, DType::kF32, {.document = 40});
    compare({2, 150, 2, 1, 24}, DType::kBF16, {.window = 70, .document = 90});
  });
}

TEST(MaxScores, RaiseWhatIsThere) {
  const AttentionSizes z{1, 40, 2, 1, 16};
  const Array qkv = Array::random(z.qkv(), 1, DType::kF32, 3);
  const std::vector<double> alone = reference(z, qkv, 1, {}, 0, z.t);
  Array most({2});
  most.set(0, 2 * alone[0]);
  most.set(1, alone[1] / 2);
  compute(MaxScoresArgs{qkv, most}, 1);
  EXPECT_FLOAT_EQ(static_cast<float>(most.at(0)), static_cast<float>(2 * alone[0]));
  EXPECT_NEAR(most.at(1), alone[1], 1e-5 * alone[1]);
}

// A rank may have a part of the queries and all keys.
TEST(MaxScores, OfAPartOfTheQueries) {
  const AttentionSizes z{2, 100, 2, 2, 16};
  const int64_t first = 30, count = 50;
  const Array qkv = Array::random(z.qkv(), 1, DType::kF32, 3), most({z.kv});
  Array queries({z.b, count, z.kv, z.g, z.d}), pairs({z.b, z.t, z.kv, 2, z.d});
  for (int64_t b = 0; b < z.b; ++b)
    for (int64_t kv = 0; kv < z.kv; ++kv)
      for (int64_t c = 0; c < z.d; ++c) {
        for (int64_t i = 0; i < count; ++i)
          for (int64_t g = 0; g < z.g; ++g)
            queries.set((((b * count + i) * z.kv + kv) * z.g + g) * z.d + c,
                        qkv.at(z.at(b, first + i, kv, g, c)));
        for (int64_t i = 0; i < z.t; ++i)
          for (int64_t slot = 0; slot < 2; ++slot)
            pairs.set((((b * z.t + i) * z.kv + kv) * 2 + slot) * z.d + c,
                      qkv.at(z.at(b, i, kv, z.g + slot, c)));
      }
  MaxScoresArgs args{queries, most, 1, pairs};
  args.scope.first_query = first;
  compute(args, 2);
  EXPECT_LT(distance(most, reference(z, qkv, 1, {}, first, count)), 1e-6);
}

}  // namespace
}  // namespace tessera::kernels

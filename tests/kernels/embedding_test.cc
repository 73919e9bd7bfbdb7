#include "kernels/embedding.h"

#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

Array ids_of(int64_t n, int64_t v) {
  Array ids({n}, DType::kI32);
  for (int64_t i = 0; i < n; ++i) ids.set(i, static_cast<double>(i * i * 31 % v));
  return ids;
}

TEST(Embedding, GathersAndScatters) {
  for_every_target([] {
    for (const DType t : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (const int64_t d : {1, 16, 65}) {
        const int64_t n = 50, v = 13;
        const Array ids = ids_of(n, v), table = Array::random({v, d}, 1, t), y({n, d}, t);
        const Array dy = Array::random({n, d}, 2, t);
        Array d_table = Array::full({v, d}, 1);
        std::vector<double> expected(static_cast<size_t>(v * d), 1);
        compute(EmbeddingArgs{ids, table, y});
        compute(EmbeddingGradArgs{ids, dy, d_table, {}});
        for (int64_t i = 0; i < n * d; ++i) {
          const auto at = static_cast<int64_t>(ids.at(i / d)) * d + i % d;
          EXPECT_EQ(y.at(i), table.at(at));
          expected[static_cast<size_t>(at)] += dy.at(i);
        }
        EXPECT_LT(distance(d_table, expected), 1e-6);
      }
    }
  });
}

TEST(Embedding, APartOfTheTableGivesItsRowsOnly) {
  const int64_t n = 20, d = 8;
  const Array ids = ids_of(n, 10), part = Array::random({4, d}, 1), dy = Array::full({n, d}, 1);
  Array y({n, d}), d_part({4, d});
  compute(EmbeddingArgs{ids, part, y, {.first = 3, .total = 10}});
  compute(EmbeddingGradArgs{ids, dy, d_part, {.first = 3, .total = 10}});
  double hits = 0, sum = 0;
  for (int64_t i = 0; i < n * d; ++i) {
    const auto row = static_cast<int64_t>(ids.at(i / d)) - 3;
    const bool here = row >= 0 && row < 4;
    EXPECT_EQ(y.at(i), here ? part.at(row * d + i % d) : 0);
    hits += here ? 1 : 0;
  }
  for (int64_t i = 0; i < d_part.size(); ++i) sum += d_part.at(i);
  EXPECT_EQ(sum, hits);
}

// 1 + 1/512 is 1 in bf16: a sum that is rounded at every id would stay there.
TEST(Embedding, ATableOfSixteenBitsTakesTheSumOfARowAtOnce) {
  for_every_target([] {
    for (const DType t : {DType::kBF16, DType::kF16}) {
      const int64_t n = 4000, v = 3, d = 37;
      const Array ids = ids_of(n, v + 2), dy = Array::full({n, d}, 0x1p-9, t);
      Array d_table = Array::full({v, d}, 1, t);
      compute(EmbeddingGradArgs{ids, dy, d_table, {.first = 1, .total = v + 2}});
      std::vector<double> expected(static_cast<size_t>(v * d), 1);
      for (int64_t i = 0; i < n; ++i) {
        const auto row = static_cast<int64_t>(ids.at(i)) - 1;
        for (int64_t c = 0; row >= 0 && row < v && c < d; ++c)
          expected[static_cast<size_t>(row * d + c)] += 0x1p-9;
      }
      EXPECT_GT(*std::max_element(expected.begin(), expected.end()), 2);
      EXPECT_LT(distance(d_table, expected), tolerance(t));
    }
  });
}

TEST(EmbeddingDeath, AnIdBeyondTheTableIsNamed) {
  Array ids({3}, DType::kI32), y({3, 4});
  const Array table({10, 4});
  ids.set(2, 10);
  EXPECT_DEATH(compute(EmbeddingArgs{ids, table, y}),
               "id 10 at position 2 is outside a table of 10 rows");
}

TEST(Embedding, ThreadsDoNotChangeTheBits) {
  const Array ids = ids_of(3000, 11), dy = Array::random({3000, 100}, 2);
  expect_same_for_any_threads([&](int threads) {
    Array d_table({11, 100});
    compute(EmbeddingGradArgs{ids, dy, d_table, {}}, threads);
    return d_table;
  });
}

}  // namespace
}  // namespace tessera::kernels

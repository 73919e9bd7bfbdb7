#include "data/samples.h"

#include <algorithm>
#include <set>

#include "tests/data/dataset_fixture.h"

namespace tessera::data {
namespace {

// Documents of 0 to 12 tokens; the tokens are numbered through the file.
std::vector<std::vector<int32_t>> numbered(int documents) {
  std::vector<std::vector<int32_t>> out;
  int32_t next = 0;
  for (int d = 0; d < documents; ++d) {
    std::vector<int32_t> ids(static_cast<size_t>(d * 7 % 13));
    for (int32_t& id : ids) id = next++;
    out.push_back(std::move(ids));
  }
  return out;
}

using SamplesTest = DatasetFixture;

TEST_F(SamplesTest, SplitsAsMegatronDoes) {
  const auto cuts = [](std::string_view split, int64_t n) {
    std::vector<int64_t> out;
    for (int part = 0; part < 3; ++part) {
      const SequenceRange r = split_range(split, part, n);
      if (out.empty()) out.push_back(r.begin);
      EXPECT_EQ(r.begin, out.back());
      out.push_back(r.end);
    }
    return out;
  };
  EXPECT_EQ(cuts("969,30,1", 1000), (std::vector<int64_t>{0, 969, 999, 1000}));
  EXPECT_EQ(cuts("1,1", 5), (std::vector<int64_t>{0, 2, 5, 5}));  // 2.5 rounds to the even 2
  EXPECT_EQ(cuts("1,1", 7), (std::vector<int64_t>{0, 4, 7, 7}));
  EXPECT_EQ(cuts("", 7), (std::vector<int64_t>{0, 7, 7, 7}));
  EXPECT_EQ(cuts("0.9, 0.1", 10), (std::vector<int64_t>{0, 9, 10, 10}));
  for (const char* bad : {"a", "1,,1", "1,2,3,4", "-1,2", "0,0", "nan", "1,"}) {
    EXPECT_TRUE(contains(error_of([&] { split_range(bad, 0, 10); }), "Expected shares of train"))
        << bad;
  }
}

// Over one epoch each token is predicted once, but for the first and the tail; and what stands
// together in a sample is what stands together in documents.
TEST_F(SamplesTest, AnEpochReadsEachTokenOnce) {
  const auto documents = numbered(2000);
  const IndexedDataset data(dataset("d", documents));
  constexpr int64_t kT = 16;
  SampleOrder order(data, {0, data.sequences()}, kT, 5);
  EXPECT_EQ(order.samples_per_epoch(), (data.tokens() - 1) / kT);
  for (const int64_t epoch : {0, 1, 3}) {
    std::multiset<int32_t> predicted;
    std::vector<int32_t> ids(kT + 1);
    for (int64_t i = 0; i < order.samples_per_epoch(); ++i) {
      const int64_t sample = epoch * order.samples_per_epoch() + i;
      order.read(sample, ids);
      predicted.insert(ids.begin() + 1, ids.end());
      std::vector<int32_t> from_pieces;
      for (const SamplePiece& p : order.pieces(sample)) {
        const auto& d = documents[static_cast<size_t>(p.sequence)];
        from_pieces.insert(from_pieces.end(), d.begin() + p.from, d.begin() + p.from + p.count);
        const bool inner = from_pieces.size() < ids.size();
        if (inner) {
          EXPECT_EQ(p.from + p.count, static_cast<int64_t>(d.size()));
        }
      }
      ASSERT_EQ(from_pieces, ids);
    }
    ASSERT_EQ(predicted.size(), static_cast<size_t>(order.samples_per_epoch() * kT));
    EXPECT_EQ(std::set<int32_t>(predicted.begin(), predicted.end()).size(), predicted.size());
  }
}

TEST_F(SamplesTest, OrderIsAFunctionOfSeedEpochAndSample) {
  const IndexedDataset data(dataset("d", numbered(500)));
  const SequenceRange all{0, data.sequences()};
  SampleOrder forward(data, all, 8, 1), backward(data, all, 8, 1), other(data, all, 8, 2);
  const int64_t n = forward.samples_per_epoch();
  std::vector<std::vector<int32_t>> read(static_cast<size_t>(3 * n), std::vector<int32_t>(9));
  for (int64_t s = 0; s < 3 * n; ++s) forward.read(s, read[static_cast<size_t>(s)]);
  int same_next_epoch = 0, same_other_seed = 0;
  std::vector<int32_t> ids(9);
  for (int64_t s = 3 * n - 1; s >= 0; --s) {
    backward.read(s, ids);
    ASSERT_EQ(ids, read[static_cast<size_t>(s)]);
    if (s < n) {
      same_next_epoch += ids == read[static_cast<size_t>(s + n)];
      other.read(s, ids);
      same_other_seed += ids == read[static_cast<size_t>(s)];
    }
  }
  EXPECT_LT(same_next_epoch, 3);
  EXPECT_LT(same_other_seed, 3);
}

TEST_F(SamplesTest, StaysInItsRange) {
  const IndexedDataset data(dataset("d", numbered(1000)));
  SampleOrder order(data, {100, 200}, 8, 1);
  EXPECT_EQ(order.tokens(), data.first_token(200) - data.first_token(100));
  std::vector<int32_t> ids(9);
  for (int64_t s = 0; s < 2 * order.samples_per_epoch(); ++s) {
    order.read(s, ids);
    for (const int32_t id : ids) {
      EXPECT_GE(id, data.first_token(100));
      EXPECT_LT(id, data.first_token(200));
    }
  }
}

TEST_F(SamplesTest, TooSmallIsRefused) {
  const IndexedDataset data(dataset("d", {{1, 2, 3}, {4}}));
  const std::string message = error_of([&] { SampleOrder order(data, {0, 2}, 4, 1); });
  EXPECT_TRUE(
      contains(message, "2 documents with 4 tokens are too few for a sample of 4 + 1 tokens"))
      << message;
  SampleOrder fits(data, {0, 2}, 3, 1);
  EXPECT_EQ(fits.samples_per_epoch(), 1);
  EXPECT_NE(error_of([&] { SampleOrder order(data, {0, 0}, 4, 1); }), "");
}

}  // namespace
}  // namespace tessera::data

#include "data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"

namespace tessera::data {
namespace {

constexpr int64_t kT = 3;

struct Micro {
  std::vector<int32_t> tokens, labels, positions;
  std::vector<int64_t> samples;
  explicit Micro(int64_t b)
      : tokens(static_cast<size_t>(b * kT)),
        labels(tokens),
        positions(tokens),
        samples(static_cast<size_t>(b)) {}
  BatchView view() { return {tokens, labels, positions, samples}; }
};

// Sample n holds n·10, n·10 + 1, …
int64_t numbers(int64_t sample, std::span<int32_t> out) {
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<int32_t>(sample * 10) + static_cast<int32_t>(i);
  return static_cast<int64_t>(out.size());
}

// 4, 4, 8, 8 and then 12 sequences a step, each sample once and in order, also after a jump.
TEST(BatchesTest, ARampTakesEverySampleOnce) {
  std::vector<int64_t> seen;
  for (const int64_t ranks : {1, 2}) {
    seen.clear();
    for (int64_t rank = 0; rank < ranks; ++rank) {
      BatchSource source({.global = 12,
                          .micro = 2,
                          .sequence_length = kT,
                          .rank = rank,
                          .ranks = ranks,
                          .ramp = {4, 8},
                          .ramp_steps = 2},
                         numbers);
      const BatchShape& shape = source.shape();
      const int64_t sizes[] = {4, 4, 8, 8, 12, 12};
      const int64_t before[] = {0, 4, 8, 16, 24, 36};
      for (const int64_t step : {0, 1, 2, 3, 4, 5, 2}) {
        EXPECT_EQ(shape.global_at(step), sizes[step]);
        EXPECT_EQ(shape.samples_before(step), before[step]);
        EXPECT_EQ(shape.step_of(before[step]), step);
        EXPECT_EQ(shape.step_of(shape.samples_before(step + 1) - 1), step);
        for (int64_t m = 0; m < shape.microbatches(step); ++m) {
          Micro out(2);
          source.fill(step, m, out.view());
          EXPECT_EQ(out.samples[0], before[step] + (m * ranks + rank) * 2);
          EXPECT_EQ(out.tokens[0], out.samples[0] * 10);
          seen.insert(seen.end(), out.samples.begin(), out.samples.end());
        }
      }
    }
    const std::set<int64_t> once(seen.begin(), seen.end());
    EXPECT_EQ(once.size(), 48u);
    EXPECT_EQ(*once.rbegin(), 47);
  }
}

// 3 steps of 8 on a ramp's first part, then batches of 3 on 3 ranks: 24 is not a multiple of 9.
TEST(BatchesTest, A2_F2_AnotherBatchTakesTheSamplesThatFollow) {
  const BatchPeriod before{.row_tokens = kT, .global = 4, .ramp = {8}, .ramp_steps = 3};
  BatchShape shape{.global = 9, .micro = 3, .sequence_length = kT, .ranks = 3};
  shape.ramp = {18, 27};
  shape.ramp_steps = 4;  // by the step of the run: one more step of 18, then 27
  shape.first_step = 3;
  shape.first_sample = before.samples_before(3);
  shape.first_tokens = before.tokens_before(3);
  shape.past = {before};
  std::vector<int64_t> seen;
  for (int64_t step = 3; step < 9; ++step) {
    EXPECT_EQ(shape.global_at(step), step == 3 ? 18 : step < 8 ? 27 : 9);
    for (int64_t m = 0; m < shape.microbatches(step); ++m) {
      for (shape.rank = 0; shape.rank < 3; ++shape.rank) {
        BatchSource source(shape, numbers);
        Micro out(3);
        source.fill(step, m, out.view());
        EXPECT_EQ(out.tokens[0], out.samples[0] * 10);
        seen.insert(seen.end(), out.samples.begin(), out.samples.end());
      }
    }
  }
  std::sort(seen.begin(), seen.end());
  for (size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], 24 + static_cast<int64_t>(i));
  EXPECT_EQ(std::ssize(seen), 18 + 4 * 27 + 9);
  EXPECT_EQ(shape.samples_before(2), 16);
  EXPECT_EQ(shape.samples_before(4), 42);
  EXPECT_EQ(shape.tokens_before(4), 42 * kT);
  EXPECT_EQ(shape.step_of(23), 2);
  EXPECT_EQ(shape.step_of(24), 3);
  EXPECT_EQ(shape.step_of(42), 4);
  for (const int64_t step : {4, 5, 8, 9}) {
    const int64_t tokens = shape.tokens_before(step);
    EXPECT_EQ(shape.steps_for_tokens(tokens), step);
    EXPECT_EQ(shape.steps_for_tokens(tokens - 1), step);
    EXPECT_EQ(shape.steps_for_tokens(tokens + 1), step + 1);
  }
  EXPECT_EQ(shape.steps_for_tokens(shape.first_tokens), 3);
  EXPECT_EQ(shape.steps_for_tokens(1), 3);  // consumed before the resume
}

TEST(BatchesTest, RanksShareTheGlobalBatch) {
  for (const int64_t ranks : {1, 2, 3}) {
    std::set<int64_t> seen;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      BatchSource source(
          {.global = 12, .micro = 2, .sequence_length = kT, .rank = rank, .ranks = ranks}, numbers);
      ASSERT_EQ(source.shape().microbatches(0), 6 / ranks);
      for (int64_t step = 0; step < 4; ++step) {
        for (int64_t m = 0; m < 6 / ranks; ++m) {
          Micro out(2);
          source.fill(step, m, out.view());
          for (size_t i = 0; i < 2; ++i) {
            EXPECT_EQ(out.samples[i], step * 12 + (m * ranks + rank) * 2 + static_cast<int64_t>(i));
            EXPECT_TRUE(seen.insert(out.samples[i]).second);
            EXPECT_EQ(out.tokens[i * kT + 1], out.samples[i] * 10 + 1);
            EXPECT_EQ(out.labels[i * kT + 1], out.samples[i] * 10 + 2);
            EXPECT_EQ(out.positions[i * kT + 2], 2);
          }
        }
      }
    }
    EXPECT_EQ(seen.size(), 48u);
    EXPECT_EQ(*seen.rbegin(), 47);
  }
}

TEST(BatchesTest, JumpsReadTheSame) {
  BatchSource source({.global = 4, .micro = 2, .sequence_length = kT}, numbers, 3);
  for (const int64_t step : {5, 6, 7, 2, 2, 100, 3, 4, 0}) {
    for (const int64_t m : {0, 1}) {
      Micro out(2);
      source.fill(step, m, out.view());
      EXPECT_EQ(out.samples[0], step * 4 + m * 2);
      EXPECT_EQ(out.tokens[0], out.samples[0] * 10);
    }
  }
}

TEST(BatchesTest, ShortSamplesAreMasked) {
  BatchSource source({.global = 1, .micro = 1, .sequence_length = kT},
                     [](int64_t sample, std::span<int32_t> out) {
                       if (sample >= 2) return int64_t{0};
                       numbers(sample, out);
                       return sample == 0 ? int64_t{4} : int64_t{2};
                     });
  Micro out(1);
  source.fill(1, 0, out.view());
  EXPECT_EQ(out.tokens, (std::vector<int32_t>{10, 11, 0}));
  EXPECT_EQ(out.labels, (std::vector<int32_t>{11, -100, -100}));
  source.fill(2, 0, out.view());
  EXPECT_EQ(out.labels, (std::vector<int32_t>{-100, -100, -100}));
}

TEST(BatchesTest, ErrorsReachWhoAsks) {
  BatchSource source({.global = 1, .micro = 1, .sequence_length = kT},
                     [](int64_t sample, std::span<int32_t> out) {
                       if (sample == 3) throw Error("sample 3 is bad");
                       return numbers(sample, out);
                     });
  Micro out(1);
  for (int64_t s = 0; s < 3; ++s) source.fill(s, 0, out.view());
  EXPECT_THROW(source.fill(3, 0, out.view()), Error);
  source.fill(4, 0, out.view());
  EXPECT_EQ(out.tokens[0], 40);
}

TEST(BatchesTest, ReadsAheadAndNoFurther) {
  std::atomic<int64_t> read{0};
  BatchSource source(
      {.global = 2, .micro = 2, .sequence_length = kT},
      [&](int64_t sample, std::span<int32_t> out) {
        ++read;
        return numbers(sample, out);
      },
      4);
  EXPECT_EQ(read, 0);
  Micro out(2);
  source.fill(0, 0, out.view());
  for (int i = 0; i < 2000 && read < 10; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(read, 10);  // the first, and four more of two samples each
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(read, 10);
}

TEST(BatchesTest, RowsCarryDocumentsAndTheEncodersSource) {
  constexpr int64_t kS = 2;
  BatchSource source({.global = 4, .micro = 2, .sequence_length = kT, .source_length = kS},
                     [](int64_t sample, const SampleRow& row) {
                       const auto n = static_cast<int32_t>(sample);
                       for (const auto& values : {row.tokens, row.labels, row.positions}) {
                         std::fill(values.begin(), values.end(), n);
                       }
                       std::fill(row.documents.begin(), row.documents.end(), n + 10);
                       std::fill(row.source.begin(), row.source.end(), n + 20);
                     });
  Micro out(2);
  std::vector<int32_t> documents(2 * kT), encoder(2 * kS);
  BatchView view = out.view();
  view.source = encoder;
  source.fill(0, 1, view);  // without documents
  EXPECT_EQ(out.labels, (std::vector<int32_t>{2, 2, 2, 3, 3, 3}));
  view.documents = documents;
  source.fill(1, 0, view);
  EXPECT_EQ(out.tokens, (std::vector<int32_t>{4, 4, 4, 5, 5, 5}));
  EXPECT_EQ(documents, (std::vector<int32_t>{14, 14, 14, 15, 15, 15}));
  EXPECT_EQ(encoder, (std::vector<int32_t>{24, 24, 25, 25}));
  EXPECT_EQ(out.samples, (std::vector<int64_t>{4, 5}));
}

TEST(CopyPart, TakesOnePartOrTwoChunksOfEachRow) {
  const std::vector<int32_t> rows = {0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17};
  std::vector<int32_t> own(8);
  copy_part(rows, 2, {.index = 1, .count = 2}, own);
  EXPECT_EQ(own, (std::vector<int32_t>{4, 5, 6, 7, 14, 15, 16, 17}));
  copy_part(rows, 2, {.index = 1, .count = 2, .zigzag = true}, own);
  EXPECT_EQ(own, (std::vector<int32_t>{2, 3, 4, 5, 12, 13, 14, 15}));
  copy_part(rows, 2, {.index = 0, .count = 2, .zigzag = true}, own);
  EXPECT_EQ(own, (std::vector<int32_t>{0, 1, 6, 7, 10, 11, 16, 17}));
}

// Two rows of four tokens; the second has documents 0 0 1 1, whose last label is in the next one.
TEST(BatchesTest, TokensAheadOfAPosition) {
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 11, 12, 13, 14};
  const std::vector<int32_t> labels = {2, 3, 4, 5, 12, kIgnoredLabel, 14, 15};
  const std::vector<int32_t> documents = {0, 0, 0, 0, 0, 0, 1, 1};
  constexpr int32_t kNo = kIgnoredLabel;
  std::vector<int32_t> t(8), l(8);
  fill_mtp(tokens, labels, documents, 2, 1, {}, {t, l});
  EXPECT_EQ(t, (std::vector<int32_t>{2, 3, 4, 0, 12, 13, 14, 0}));
  EXPECT_EQ(l, (std::vector<int32_t>{3, 4, 5, kNo, kNo, kNo, 15, kNo}));
  fill_mtp(tokens, labels, {}, 2, 2, {}, {t, l});
  EXPECT_EQ(t, (std::vector<int32_t>{3, 4, 0, 0, 13, 14, 0, 0}));
  EXPECT_EQ(l, (std::vector<int32_t>{4, 5, kNo, kNo, 14, 15, kNo, kNo}));
  // The first half of each row reads beyond its end.
  std::vector<int32_t> half(4), half_labels(4);
  fill_mtp(tokens, labels, documents, 2, 1, {0, 2}, {half, half_labels});
  EXPECT_EQ(half, (std::vector<int32_t>{2, 3, 12, 13}));
  EXPECT_EQ(half_labels, (std::vector<int32_t>{3, 4, kNo, kNo}));
  // The first and the last quarter of each row.
  fill_mtp(tokens, labels, documents, 2, 1, {0, 2, true}, {half, half_labels});
  EXPECT_EQ(half, (std::vector<int32_t>{2, 0, 12, 0}));
  EXPECT_EQ(half_labels, (std::vector<int32_t>{3, kNo, kNo, kNo}));
  fill_mtp(tokens, labels, documents, 2, 1, {1, 2, true}, {half, half_labels});
  EXPECT_EQ(half, (std::vector<int32_t>{3, 4, 13, 14}));
  EXPECT_EQ(half_labels, (std::vector<int32_t>{4, 5, kNo, 15}));
  fill_mtp(tokens, labels, documents, 2, 5, {}, {t, l});  // longer than the rows
  EXPECT_EQ(l, std::vector<int32_t>(8, kNo));
}

}  // namespace
}  // namespace tessera::data

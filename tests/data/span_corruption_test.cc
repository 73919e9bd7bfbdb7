#include "data/span_corruption.h"

#include <gtest/gtest.h>

#include <numeric>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/philox.h"
#include "tests/data/dataset_fixture.h"

namespace tessera::data {
namespace {

using Ids = std::vector<int32_t>;

Ids tokens_of(int64_t sample, int64_t length) {
  Ids tokens(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) {
    tokens[static_cast<size_t>(i)] = static_cast<int32_t>(2 + (7 * sample + 13 * i) % 30000);
  }
  return tokens;
}

struct Corrupted {
  Ids inputs, targets;
};

Corrupted corrupted(const SpanLengths& l, uint64_t seed, int64_t sample, const Ids& tokens) {
  Corrupted c{Ids(static_cast<size_t>(l.inputs)), Ids(static_cast<size_t>(l.targets))};
  corrupt_spans(l, {32099, 1}, seed, sample, tokens, c.inputs, c.targets);
  return c;
}

// T5's random_spans_helper: inputs, tokens, targets, noise, spans.
TEST(SpanCorruption, HasTheLengthsOfT5) {
  constexpr int64_t kTable[][5] = {{64, 70, 14, 10, 3},        {128, 141, 29, 21, 7},
                                   {256, 284, 58, 43, 14},     {512, 568, 114, 85, 28},
                                   {1024, 1137, 229, 171, 57}, {2048, 2274, 456, 341, 114}};
  for (const auto& row : kTable) {
    const SpanLengths l = fit_spans(row[0], {});
    EXPECT_EQ(l.tokens, row[1]);
    EXPECT_EQ(l.targets, row[2]);
    EXPECT_EQ(l.noise, row[3]);
    EXPECT_EQ(l.spans, row[4]);
    EXPECT_LE(l.inputs, row[0]);
    EXPECT_GT(span_lengths(l.tokens + 1, {}).inputs, row[0]);
  }
  EXPECT_NO_THROW(require_sentinels(fit_spans(1024, {}), 100));
  const std::string message = error_of([] { require_sentinels(fit_spans(2048, {}), 100); });
  EXPECT_TRUE(contains(message, "removes 114 spans from 2274 tokens, but the tokenizer has 100"))
      << message;
}

TEST(SpanCorruption, RefusesWhatHasNoRoom) {
  EXPECT_THROW(fit_spans(64, {.noise_density = 0}), Error);
  EXPECT_THROW(fit_spans(64, {.noise_density = 1}), Error);
  EXPECT_THROW(fit_spans(64, {.mean_span = 0.5}), Error);
  EXPECT_THROW(fit_spans(2, {}), Error);
  EXPECT_THROW(fit_spans(64, {.noise_density = 0.9, .mean_span = 1}), Error);
  const SpanLengths half = fit_spans(64, {.noise_density = 0.5, .mean_span = 3});
  EXPECT_LE(half.targets, half.inputs);
}

// 10,000 samples a line, by an independent implementation (scripts/span_corruption_golden.py).
TEST(SpanCorruption, IsThatOfT5) {
  std::istringstream file(read_file(Path(TEST_DATA) / "golden_spans.txt"));
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    std::istringstream fields(line);
    int64_t inputs = 0, tokens = 0, targets = 0;
    uint64_t seed = 0;
    fields >> inputs >> tokens >> targets >> seed;
    const SpanLengths l = fit_spans(inputs, {});
    ASSERT_EQ(l.tokens, tokens);
    ASSERT_EQ(l.targets, targets);
    int64_t sample = 0;
    for (int block = 0; block < 10; ++block) {
      std::string bytes, wanted;
      for (int i = 0; i < 1000; ++i, ++sample) {
        const Corrupted c = corrupted(l, seed, sample, tokens_of(sample, tokens));
        for (const Ids* ids : {&c.inputs, &c.targets}) {
          for (const int32_t id : *ids) {
            for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(id >> shift);
          }
        }
      }
      fields >> wanted;
      ASSERT_EQ(fmt::format("{:016x}", hash_name(bytes)), wanted) << "samples to " << sample;
    }
    const Corrupted first = corrupted(l, seed, 0, tokens_of(0, tokens));
    Ids all = first.inputs;
    all.insert(all.end(), first.targets.begin(), first.targets.end());
    for (const int32_t id : all) {
      int32_t wanted = -1;
      fields >> wanted;
      ASSERT_EQ(id, wanted);
    }
  }
  EXPECT_EQ(lines, 3);
}

// The text comes back: what stands between two sentinels, from inputs and targets in turn.
TEST(SpanCorruption, LosesAndRepeatsNoToken) {
  for (const int64_t length : {5, 12, 70, 333}) {
    const SpanLengths l = span_lengths(length, {});
    for (int64_t sample = 0; sample < 200; ++sample) {
      const Ids tokens = tokens_of(sample, length);
      const Corrupted c = corrupted(l, 9, sample, tokens);
      EXPECT_LT(c.inputs[0], 30002);  // begins with what is kept
      Ids back;
      size_t target = 0;
      for (size_t i = 0; i + 1 < c.inputs.size(); ++i) {
        if (c.inputs[i] < 30002) {
          back.push_back(c.inputs[i]);
          continue;
        }
        ASSERT_EQ(c.targets[target++], c.inputs[i]);
        while (c.targets[target] < 30002 && target + 1 < c.targets.size()) {
          back.push_back(c.targets[target++]);
        }
      }
      EXPECT_EQ(back, tokens);
      EXPECT_EQ(target, c.targets.size() - 1);
      EXPECT_EQ(c.inputs.back(), 1);
      EXPECT_EQ(c.targets.back(), 1);
    }
  }
}

// Every division into parts is drawn equally often: 6 tokens in 3 parts, 10 ways.
TEST(SpanCorruption, DrawsAllDivisionsAlike) {
  const SpanLengths l{.tokens = 12, .noise = 6, .spans = 3, .inputs = 10, .targets = 10};
  std::map<std::vector<int64_t>, int> seen;
  constexpr int kDraws = 20000;
  for (int64_t sample = 0; sample < kDraws; ++sample) {
    std::vector<int64_t> spans(6);
    draw_spans(l, 1, sample, spans);
    EXPECT_EQ(std::accumulate(spans.begin(), spans.end(), int64_t{0}), 12);
    ++seen[{spans[1], spans[3], spans[5]}];
  }
  ASSERT_EQ(seen.size(), 10u);
  for (const auto& [division, count] : seen) EXPECT_NEAR(count, kDraws / 10, 200);
}

}  // namespace
}  // namespace tessera::data

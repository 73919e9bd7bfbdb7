#include "data/bpe_trainer.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/error.h"
#include "base/file.h"

namespace tessera::data {
namespace {

BpeDescription train(WordCounts& counts, int32_t vocabulary) {
  const auto words = counts.words();
  return train_bpe(words, {.vocabulary = vocabulary});
}

// The golden tokenizer was learned by Hugging Face from the same text.
TEST(BpeTrainer, LearnsWhatHuggingFaceLearns) {
  const Path folder = Path(TEST_DATA) / "golden_tokenizer";
  const std::string text = read_file(folder / "text.txt");
  const std::string json = read_file(folder / "tokenizer.json");
  const BpeDescription golden = read_tokenizer_json(json, "golden");
  WordCounts counts(1);
  counts.add(lines_with_ends(text));
  const BpeDescription ours = train(counts, 400);
  EXPECT_EQ(std::map(ours.vocabulary.begin(), ours.vocabulary.end()),
            std::map(golden.vocabulary.begin(), golden.vocabulary.end()));
  EXPECT_EQ(ours.merges, golden.merges);
  ASSERT_EQ(ours.added_tokens.size(), 1u);
  EXPECT_EQ(ours.added_tokens[0].content, "<|endoftext|>");
  EXPECT_EQ(ours.added_tokens[0].id, 0);
}

// The definition: count all pairs anew for every merge.
std::vector<std::array<int32_t, 3>> merges_by_definition(
    std::vector<std::pair<std::vector<int32_t>, int64_t>> words, int32_t vocabulary) {
  std::vector<std::array<int32_t, 3>> merges;
  for (int32_t id = 257; id < vocabulary; ++id) {
    std::map<std::pair<int32_t, int32_t>, int64_t> counts;
    for (const auto& [ids, count] : words) {
      for (size_t i = 0; i + 1 < ids.size(); ++i) counts[{ids[i], ids[i + 1]}] += count;
    }
    std::pair<int32_t, int32_t> best;
    int64_t most = 0;
    for (const auto& [pair, count] : counts) {
      if (count > most) best = pair;
      most = std::max(most, count);
    }
    if (most == 0) break;
    merges.push_back({best.first, best.second, id});
    for (auto& [ids, count] : words) {
      std::vector<int32_t> kept;
      for (size_t i = 0; i < ids.size(); ++i) {
        const bool here = i + 1 < ids.size() && ids[i] == best.first && ids[i + 1] == best.second;
        kept.push_back(here ? id : ids[i]);
        i += here ? 1 : 0;
      }
      ids = kept;
    }
  }
  return merges;
}

TEST(BpeTrainer, FollowsTheDefinition) {
  std::mt19937 random(1);
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) {
    std::string word;
    for (size_t n = 2 + random() % 8; n > 0; --n) word += static_cast<char>('a' + random() % 3);
    for (size_t n = 1 + random() % 50; n > 0; --n) texts.push_back(word);
  }
  WordCounts counts(1);
  counts.add(std::vector<std::string_view>(texts.begin(), texts.end()));
  const auto words = counts.words();
  std::vector<std::pair<std::vector<int32_t>, int64_t>> as_ids;
  for (const auto& word : words) {
    std::vector<int32_t> ids;
    for (const char c : word.bytes) ids.push_back(c - '!' + 1);  // '!' is the first of the bytes
    as_ids.emplace_back(ids, word.count);
  }
  std::vector<int64_t> sizes;
  const BpeDescription ours =
      train_bpe(words, {.vocabulary = 290}, [&](int64_t tokens) { sizes.push_back(tokens); });
  ASSERT_GE(sizes.size(), ours.merges.size());  // merges of one text are kept once
  EXPECT_EQ(sizes.front(), 257);
  const auto wanted = merges_by_definition(as_ids, 290);
  // Where one text comes out of two merges the two differ (Hugging Face's way); until then they
  // must not.
  const auto seen = std::mismatch(wanted.begin(), wanted.end(), ours.merges.begin());
  EXPECT_GT(seen.first - wanted.begin(), 20);
}

TEST(BpeTrainer, StopsWhereThereAreNoMorePairs) {
  WordCounts counts(1);
  const std::string_view text = "abab";
  counts.add(std::span(&text, 1));
  const BpeDescription bpe = train(counts, 5000);
  ASSERT_EQ(bpe.merges.size(), 2u);
  EXPECT_EQ(bpe.vocabulary.back().first, "abab");
}

TEST(BpeTrainer, RefusesAVocabularyWithoutRoom) {
  EXPECT_THROW(check_training({.vocabulary = 256}), Error);
  EXPECT_NO_THROW(check_training({.vocabulary = 257}));
  EXPECT_THROW(check_training({.special_tokens = {""}}), Error);
  EXPECT_THROW(check_training({.special_tokens = {"a", "a"}}), Error);
}

TEST(WordCounts, DoesNotDependOnThreads) {
  std::string text;
  for (int i = 0; text.size() < 2'000'000; ++i) {
    text += fmt::format("line {} is\xFF here\n", i % 977);
  }
  WordCounts one(1), four(4);
  const EncodeReport a = one.add(lines_with_ends(text)), b = four.add(lines_with_ends(text));
  EXPECT_EQ(a.invalid_bytes, b.invalid_bytes);
  EXPECT_EQ(a.first_invalid, b.first_invalid);
  const auto words = one.words(), others = four.words();
  ASSERT_EQ(words.size(), others.size());
  for (size_t i = 0; i < words.size(); ++i) {
    ASSERT_EQ(words[i].bytes, others[i].bytes);
    ASSERT_EQ(words[i].count, others[i].count);
  }
}

TEST(WordCounts, KeepsLineEnds) {
  EXPECT_EQ(lines_with_ends("a\n\nb"), (std::vector<std::string_view>{"a\n", "\n", "b"}));
  EXPECT_TRUE(lines_with_ends("").empty());
}

}  // namespace
}  // namespace tessera::data

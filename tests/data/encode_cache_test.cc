#include "data/encode_cache.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <string>
#include <vector>

namespace tessera::data {
namespace {

TEST(EncodeCache, FindsWhatWasInsertedAndNothingElse) {
  EncodeCache cache;
  for (int32_t i = 0; i < 100000; ++i) {
    const std::string word = fmt::format("w{}", i);
    cache.insert(word, hash_bytes(word), std::vector<int32_t>{i, i + 1});
  }
  for (int32_t i = 0; i < 100000; ++i) {
    const std::string word = fmt::format("w{}", i);
    const auto ids = cache.find(word, hash_bytes(word));
    ASSERT_EQ(ids.size(), 2u);
    ASSERT_EQ(ids[0], i);
  }
  EXPECT_TRUE(cache.find("w100000", hash_bytes("w100000")).empty());
}

TEST(EncodeCache, TellsWordsOfOneHashApart) {
  EncodeCache cache;
  cache.insert("one", 42, std::vector<int32_t>{1});
  cache.insert("two", 42, std::vector<int32_t>{2});
  EXPECT_EQ(cache.find("one", 42)[0], 1);
  EXPECT_EQ(cache.find("two", 42)[0], 2);
  EXPECT_TRUE(cache.find("six", 42).empty());
}

TEST(EncodeCache, StaysWithinItsLimit) {
  constexpr int64_t kLimit = 1 << 20;
  EncodeCache cache(kLimit);
  int64_t most = 0;
  for (int32_t i = 0; i < 200000; ++i) {
    const std::string word = fmt::format("a word of some length {}", i);
    cache.insert(word, hash_bytes(word), std::vector<int32_t>{i});
    most = std::max(most, cache.bytes());
    ASSERT_EQ(cache.find(word, hash_bytes(word))[0], i);
  }
  EXPECT_LE(most, kLimit);
  EXPECT_GT(most, kLimit / 2);
}

TEST(EncodeCache, ForgetsForAnotherTokenizer) {
  EncodeCache cache;
  cache.begin(1);
  cache.insert("x", 7, std::vector<int32_t>{1});
  cache.begin(1);
  EXPECT_FALSE(cache.find("x", 7).empty());
  cache.begin(2);
  EXPECT_TRUE(cache.find("x", 7).empty());
}

TEST(EncodeCache, LeavesOutLongWords) {
  EncodeCache cache;
  const std::string word(EncodeCache::kLongestWord + 1, 'x');
  cache.insert(word, 7, std::vector<int32_t>{1});
  EXPECT_TRUE(cache.find(word, 7).empty());
}

}  // namespace
}  // namespace tessera::data

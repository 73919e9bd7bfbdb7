#include "data/tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/file.h"
#include "tests/data/tokenizer_fixture.h"

namespace tessera::data {
namespace {

using Ids = std::vector<int32_t>;

struct Case {
  std::string text;
  Ids ids;
};

std::vector<Case> golden_cases(const Path& path) {
  std::vector<Case> cases;
  const std::string file = read_file(path);
  for (size_t from = 0; from < file.size();) {
    const size_t end = file.find('\n', from);
    const Tree line = parse_json(std::string_view(file).substr(from, end - from), path.string());
    Case c{*line.find("text")->as_string(), {}};
    for (const Tree& id : *line.find("ids")->as_list()) {
      c.ids.push_back(static_cast<int32_t>(std::get<int64_t>(id.value)));
    }
    cases.push_back(std::move(c));
    from = end + 1;
  }
  return cases;
}

std::string random_bytes(std::mt19937& random, size_t size) {
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

// Learned and encoded by Hugging Face: NFC, added tokens of every kind (tokenizer_golden.py).
TEST(Tokenizer, GivesTheIdsOfHuggingFace) {
  const Path folder = Path(TEST_DATA) / "golden_tokenizer";
  const auto tokenizer = load_tokenizer(folder);
  const std::vector<Case> cases = golden_cases(folder / "cases.jsonl");
  ASSERT_GT(cases.size(), 200u);
  EncodeCache cache;
  for (const Case& c : cases) {
    Ids ids;
    tokenizer->encode(c.text, ids, cache);
    ASSERT_EQ(ids, c.ids) << c.text;
  }
  EXPECT_EQ(tokenizer->end_of_text(), 0);
  EXPECT_EQ(tokenizer->vocabulary_size(), 407);
}

TEST(Tokenizer, ReadsTheSharedTokenizers) {
  const Path folder = Path(SHARED_DATA) / "tokenizers";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not here";
  const auto gpt2 = load_tokenizer(folder / "gpt2.tokenizer.json");
  EXPECT_EQ(gpt2->vocabulary_size(), 50257);
  EXPECT_EQ(gpt2->end_of_text(), 50256);
  EXPECT_EQ(gpt2->encode("Hello world<|endoftext|> it's"), (Ids{15496, 995, 50256, 340, 338}));
  const auto neox = load_tokenizer(folder / "gpt-neox-20b.tokenizer.json");
  EXPECT_EQ(neox->vocabulary_size(), 50277);
  EXPECT_EQ(neox->encode("Hello    world"), (Ids{12092, 50274, 10186}));
  EXPECT_NE(gpt2->fingerprint(), neox->fingerprint());
}

TEST(Tokenizer, KeepsEveryByte) {
  const BpeTokenizer tokenizer = tokenizer_of(small_bpe());
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const std::string text = random_bytes(random, random() % 300);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
  EXPECT_EQ(tokenizer.encode(" the cab"), (Ids{258, ' ', 'c', 259}));
}

TEST(Tokenizer, ReportsWhatIsNoUtf8OverSeveralTexts) {
  const BpeTokenizer tokenizer = tokenizer_of(small_bpe());
  EncodeCache cache;
  EncodeReport report;
  Ids ids;
  tokenizer.encode("fine", ids, cache, &report);
  EXPECT_EQ(report.first_invalid, -1);
  tokenizer.encode("a\xFF\xC3(", ids, cache, &report);
  tokenizer.encode("\xE0", ids, cache, &report);
  EXPECT_EQ(report.bytes, 9);
  EXPECT_EQ(report.invalid_bytes, 3);
  EXPECT_EQ(report.replaced_bytes, 0);
  EXPECT_EQ(report.first_invalid, 5);
}

// GPT-NeoX-20B's vocabulary has no token for the bytes that UTF-8 never uses.
TEST(Tokenizer, CountsBytesThatHaveNoToken) {
  BpeDescription bpe = small_bpe();
  std::erase_if(bpe.vocabulary, [](const auto& entry) { return entry.second == 0xFF; });
  const BpeTokenizer tokenizer = tokenizer_of(bpe);
  EncodeCache cache;
  EncodeReport report;
  Ids ids;
  for (int i = 0; i < 2; ++i) tokenizer.encode("a\xFF", ids, cache, &report);
  EXPECT_EQ(tokenizer.decode(ids), "a\uFFFDa\uFFFD");
  EXPECT_EQ(report.invalid_bytes, 2);
  EXPECT_EQ(report.replaced_bytes, 2);
}

TEST(Tokenizer, RefusesAVocabularyThatCannotSpell) {
  BpeDescription bpe = small_bpe();
  std::erase_if(bpe.vocabulary, [](const auto& entry) { return entry.second == 0xBF; });
  EXPECT_THROW(tokenizer_of(bpe), Error);
}

TEST(Tokenizer, TakesWholeWordsWhereMergesAreIgnored) {
  BpeDescription bpe = small_bpe();
  bpe.vocabulary.emplace_back("xyz", 300);
  EXPECT_EQ(tokenizer_of(bpe).encode("xyz"), (Ids{'x', 'y', 'z'}));
  bpe.ignore_merges = true;
  EXPECT_EQ(tokenizer_of(bpe).encode("xyz the"), (Ids{300, 258}));
}

TEST(Tokenizer, NamesAnIdBeyondTheVocabulary) {
  const BpeTokenizer tokenizer = tokenizer_of(small_bpe());
  EXPECT_EQ(tokenizer.token_bytes(258), " the");
  EXPECT_THROW(tokenizer.token_bytes(260), Error);
  EXPECT_THROW(tokenizer.token_bytes(-1), Error);
}

TEST(Tokenizer, CutsTextWhereIdsDoNotChange) {
  BpeDescription bpe = small_bpe();
  bpe.normalizer = {{}};  // NFC
  bpe.added_tokens.push_back({.id = 260, .content = "  "});
  bpe.added_tokens.push_back({.id = 261, .content = "<l>", .lstrip = true});
  const BpeTokenizer tokenizer = tokenizer_of(bpe);
  const char* pieces[] = {" ", "  ",     "ab", "the",  "'s", "<l>",
                          "e", "\u0301", "\n", "\xFF", "12", "."};
  std::mt19937 random(2);
  int cuts = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (size_t n = random() % 20; n > 0; --n) text += pieces[random() % std::size(pieces)];
    const size_t cut = tokenizer.last_cut(text);
    if (cut == 0) continue;
    ++cuts;
    text += pieces[random() % std::size(pieces)];
    Ids parts = tokenizer.encode(std::string_view(text).substr(0, cut));
    const Ids rest = tokenizer.encode(std::string_view(text).substr(cut));
    parts.insert(parts.end(), rest.begin(), rest.end());
    ASSERT_EQ(parts, tokenizer.encode(text)) << text;
  }
  EXPECT_GT(cuts, 300);
  bpe.added_tokens.push_back({.id = 262, .content = "<r>", .rstrip = true});
  EXPECT_EQ(tokenizer_of(bpe).last_cut("two words"), 0u);
}

TEST(EncodeBatch, GivesWhatOneThreadGives) {
  const BpeTokenizer tokenizer = tokenizer_of(small_bpe());
  std::string text;
  while (text.size() < 1'000'000) text += "the cab, that's\xFF it   stood. ";
  const std::vector<std::string_view> texts = {"", "the", text, "\xFF",
                                               std::string_view(text).substr(7)};
  std::vector<EncodeCache> one(1), three(3);
  std::vector<Ids> alone, shared;
  EncodeReport report, shared_report;
  encode_batch(tokenizer, texts, one, alone, &report);
  encode_batch(tokenizer, texts, three, shared, &shared_report);
  EXPECT_EQ(alone, shared);
  EXPECT_EQ(alone[2], tokenizer.encode(text));
  EXPECT_EQ(report.first_invalid, shared_report.first_invalid);
  EXPECT_EQ(report.first_invalid, 3 + static_cast<int64_t>(text.find('\xFF')));
  EXPECT_EQ(report.invalid_bytes, shared_report.invalid_bytes);
}

}  // namespace
}  // namespace tessera::data

// Tokenizers with the components of model families, against the ids and texts of Hugging Face's
// tokenizers (scripts/tokenizer_golden.py).
#include <gtest/gtest.h>

#include <algorithm>

#include "base/tree.h"
#include "data/normalizer_steps.h"
#include "data/split_steps.h"
#include "data/tokenizer.h"
#include "data/tokenizer_json.h"

namespace tessera::data {
namespace {

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& file : std::filesystem::directory_iterator(Path(TEST_DATA) / "golden_families"))
    if (file.path().extension() == ".json") out.push_back(file.path().stem().string());
  std::sort(out.begin(), out.end());
  return out;
}

class TokenizerFamily : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, TokenizerFamily, testing::ValuesIn(names()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(TokenizerFamily, GivesTheIdsAndTextsOfHuggingFace) {
  const Path folder = Path(TEST_DATA) / "golden_families";
  const auto tokenizer = load_tokenizer(folder / (GetParam() + ".json"));
  const Path file = folder / (GetParam() + ".cases.jsonl");
  const std::vector<Tree> cases = parse_json_lines(read_file(file), file.string());
  ASSERT_GE(cases.size(), 40u);
  for (const Tree& each : cases) {
    const std::string& text = *each.find("text")->as_string();
    std::vector<int32_t> expected;
    for (const Tree& id : *each.find("ids")->as_list())
      expected.push_back(static_cast<int32_t>(std::get<int64_t>(id.value)));
    ASSERT_EQ(tokenizer->encode(text), expected) << text;
    ASSERT_EQ(tokenizer->decode(expected), *each.find("decoded")->as_string()) << text;
  }
}

// Bytes that are not UTF-8 are kept where the vocabulary can represent them.
TEST_P(TokenizerFamily, KeepsBytesThatAreNotUtf8) {
  const Path file = Path(TEST_DATA) / "golden_families" / (GetParam() + ".json");
  const BpeDescription bpe = read_tokenizer_json(read_file(file), file.string());
  const auto tokenizer = load_tokenizer(file);
  const std::string text = "t\xFF\xE4\xB8t";
  std::vector<int32_t> ids;
  EncodeCache cache(1 << 16);
  EncodeReport report;
  tokenizer->encode(text, ids, cache, &report);
  EXPECT_EQ(report.invalid_bytes, 3);
  const bool has_bytes = bpe.byte_level || bpe.byte_fallback;
  EXPECT_EQ(report.replaced_bytes, has_bytes ? 0 : 3);
  if (!has_bytes) return;
  EXPECT_NE(tokenizer->decode(ids).find("t\xFF\xE4\xB8t"), std::string::npos);
}

TEST(SplitSteps, MergesMatchesAsEachBehaviorSays) {
  const auto split = [](SplitBehavior behavior, bool invert = false) {
    std::string out;
    const Splitter splitter({{.pattern = {"-", false}, .behavior = behavior, .invert = invert}});
    splitter.each_piece("-a--b-", true, [&](std::string_view p) { (out += p) += '|'; });
    return out;
  };
  EXPECT_EQ(split(SplitBehavior::kIsolated), "-|a|-|-|b|-|");
  EXPECT_EQ(split(SplitBehavior::kRemoved), "a|b|");
  EXPECT_EQ(split(SplitBehavior::kMergedWithPrevious), "-|a-|-|b-|");
  EXPECT_EQ(split(SplitBehavior::kMergedWithNext), "-a|-|-b|-|");
  EXPECT_EQ(split(SplitBehavior::kContiguous), "-|a|--|b|-|");
  EXPECT_EQ(split(SplitBehavior::kRemoved, true), "-|-|-|-|");
}

TEST(NormalizerSteps, RunInTheirOrder) {
  using Kind = NormalizerStep::Kind;
  const auto apply = [](std::vector<NormalizerStep> steps, std::string_view text) {
    std::string storage;
    return std::string(Normalizer(steps).apply(text, storage));
  };
  const auto step = [](Kind kind, std::string content = "", PatternText pattern = {}) {
    NormalizerStep out;
    out.kind = kind;
    out.content = std::move(content);
    out.pattern = std::move(pattern);
    out.left = true;
    return out;
  };
  EXPECT_EQ(apply({}, "É"), "É");
  EXPECT_EQ(apply({step(Kind::kNfd), step(Kind::kStripAccents)}, "É\u0323x"), "Ex");
  EXPECT_EQ(apply({step(Kind::kNfkc)}, "ﬁ²\u1F5F"), "fi2\u1F5F");
  EXPECT_EQ(apply({step(Kind::kLowercase)}, "AÉΣ\u0130\xFF\u10D0"), "aéσi\u0307\xFF\u10D0");
  EXPECT_EQ(apply({step(Kind::kStrip)}, "\u3000 a "), "a ");
  EXPECT_EQ(apply({step(Kind::kPrepend, "_")}, ""), "");
  const auto runs = step(Kind::kReplace, "-", {"_+", true});
  EXPECT_EQ(apply({step(Kind::kPrepend, "_"), runs}, "_a__"), "-a-");
}

}  // namespace
}  // namespace tessera::data

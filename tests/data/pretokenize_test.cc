#include "data/pretokenize.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tessera::data {
namespace {

using Words = std::vector<std::string>;

Words split(std::string_view text, PretokenizerKind how = PretokenizerKind::kGpt2) {
  const UnicodeTable table;
  const Pretokenizer pretokenizer(table, how);
  Words words;
  for (size_t from = 0; from < text.size();) {
    const size_t end = pretokenizer.word_end(text, from);
    words.emplace_back(text.substr(from, end - from));
    from = end;
  }
  return words;
}

TEST(Pretokenize, TakesOneSpaceWithAWord) {
  EXPECT_EQ(split("Hello world  x"), (Words{"Hello", " world", " ", " x"}));
  EXPECT_EQ(split("a 12 b3c"), (Words{"a", " 12", " b", "3", "c"}));
  EXPECT_EQ(split("x, y -- (z)"), (Words{"x", ",", " y", " --", " (", "z", ")"}));
}

TEST(Pretokenize, KnowsTheContractions) {
  EXPECT_EQ(split("it's we'll I'd they've"),
            (Words{"it", "'s", " we", "'ll", " I", "'d", " they", "'ve"}));
  EXPECT_EQ(split("'S 'stop 'x"), (Words{"'", "S", " '", "stop", " '", "x"}));
  EXPECT_EQ(split("'stop"), (Words{"'s", "top"}));
  EXPECT_EQ(split("''s'l"), (Words{"''", "s", "'", "l"}));
  EXPECT_EQ(split("'"), (Words{"'"}));
}

TEST(Pretokenize, LeavesTheLastOfARunOfSpaces) {
  EXPECT_EQ(split("a   b"), (Words{"a", "  ", " b"}));
  EXPECT_EQ(split("a \t\nb"), (Words{"a", " \t", "\n", "b"}));
  EXPECT_EQ(split("a\n"), (Words{"a", "\n"}));
  EXPECT_EQ(split("a  \n "), (Words{"a", "  \n "}));
  EXPECT_EQ(split("a\u3000\u00A0b"), (Words{"a", "\u3000", "\u00A0", "b"}));
}

TEST(Pretokenize, SplitsOtherScripts) {
  EXPECT_EQ(split("\u6771\u4EAC12\u0663 \u00E9t\u00E9"),
            (Words{"\u6771\u4EAC", "12\u0663", " \u00E9t\u00E9"}));
  EXPECT_EQ(split("e\u0301a"), (Words{"e", "\u0301", "a"}));  // a mark is no letter
}

// What Hugging Face's tokenizers makes of the same expressions.
TEST(Pretokenize, SplitsAsQwen2AndLlama3Do) {
  const auto qwen2 = [](std::string_view text) { return split(text, PretokenizerKind::kQwen2); };
  EXPECT_EQ(qwen2("it'S  we'LL (x) -y"),
            (Words{"it", "'S", " ", " we", "'LL", " (", "x", ")", " -", "y"}));
  EXPECT_EQ(qwen2("a.b !c\td"), (Words{"a", ".b", " !", "c", "\td"}));
  EXPECT_EQ(qwen2("a 1234"), (Words{"a", " ", "1", "2", "3", "4"}));
  EXPECT_EQ(split("a 1234", PretokenizerKind::kLlama3), (Words{"a", " ", "123", "4"}));
  EXPECT_EQ(qwen2("x;\n\n  y \n z\n"), (Words{"x", ";\n\n", " ", " y", " \n", " z", "\n"}));
  EXPECT_EQ(qwen2("a   b  "), (Words{"a", "  ", " b", "  "}));
  EXPECT_EQ(qwen2("\nb\r\n \t\nc"), (Words{"\n", "b", "\r\n \t\n", "c"}));
  EXPECT_EQ(split("a b", PretokenizerKind::kOff), (Words{"a b"}));
}

TEST(Pretokenize, TakesInvalidBytesForPunctuation) {
  EXPECT_EQ(split("a\xFF\xFE!b \xC3"), (Words{"a", "\xFF\xFE!", "b", " \xC3"}));
}

}  // namespace
}  // namespace tessera::data

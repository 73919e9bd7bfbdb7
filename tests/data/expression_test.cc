// Expressions as Oniguruma matches them. Matches in texts of every plane are compared with Hugging
// Face's in tokenizer_families_test.cc and scripts/check_tokenizers.py.
#include "data/expression.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"
#include "data/expression_syntax.h"

namespace tessera::data {
namespace {

using Texts = std::vector<std::string>;

Texts matches(std::string_view pattern, std::string_view text) {
  Texts out;
  Expression(pattern).each_match(
      text, [&](PatternMatch m) { out.emplace_back(text.substr(m.begin, m.end - m.begin)); });
  return out;
}

std::string message(std::string_view pattern) {
  try {
    Expression{pattern};
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Expression, MatchesWhatOnigurumaMatches) {
  EXPECT_EQ(matches("a+|b", "xaab"), (Texts{"aa", "b"}));
  EXPECT_EQ(matches("\\p{Lu}\\p{Ll}*", "Äpfel und Öl"), (Texts{"Äpfel", "Öl"}));
  EXPECT_EQ(matches("[^\\s\\p{L}]", "a \xFF!"), (Texts{"\xFF", "!"}));
  EXPECT_EQ(matches("\\s+(?!\\S)", "a  b   "), (Texts{" ", "   "}));
  EXPECT_EQ(matches("(?i:'s|k)", "'S'ſ \u212A"), (Texts{"'S", "'ſ", "\u212A"}));
  EXPECT_EQ(matches("(?i)[a-c]+", "aBCd"), (Texts{"aBC"}));
  EXPECT_EQ(matches("[\\p{L}&&[^\\p{Han}]]+", "ab\u4E2D\u3042"), (Texts{"ab", "\u3042"}));
  EXPECT_EQ(matches("[a[x-z]]+", "azb"), (Texts{"az"}));
  EXPECT_EQ(matches("(?<=a)b|b(?=c)", "ab b bc"), (Texts{"b", "b"}));
  EXPECT_EQ(matches("^a|b$", "a\na b\nb"), (Texts{"a", "a", "b", "b"}));
  EXPECT_EQ(matches("\\Aa|b\\z", "a\na b\nb"), (Texts{"a", "b"}));
  EXPECT_EQ(matches("\\bthe\\b", "the then, the"), (Texts{"the", "the"}));
  EXPECT_EQ(matches("a{2}|b{,2}c", "aaa bbbc"), (Texts{"aa", "bbc"}));
  EXPECT_EQ(matches("a.", "a\nab"), (Texts{"ab"}));
  EXPECT_EQ(matches("a?+ab?", "ab aab"), (Texts{"aab"}));
  EXPECT_EQ(matches("\\x{4e2d}|\\u3042|\\x41|\\t", "\u4E2D\u3042A\t"),
            (Texts{"\u4E2D", "\u3042", "A", "\t"}));
  EXPECT_EQ(matches("[\\-\\]\\\\^]+", "-]\\^a"), (Texts{"-]\\^"}));
}

TEST(Expression, NamesWhatItDoesNotSupport) {
  const struct {
    const char *pattern, *says;
  } faults[] = {
      {"a*", "can match an empty text"},
      {"(?=a)", "can match an empty text"},
      {"(a", "'(' without ')'"},
      {"a)", "')' without '('"},
      {"[a", "a set without its ']'"},
      {"[]a]", "an empty set"},
      {"[b-a]", "a range whose end is before its beginning"},
      {"[[:alpha:]]", "a POSIX bracket"},
      {"\\p{Greek}", "the property 'Greek'"},
      {"\\1", "\\1"},
      {"\\K", "\\K"},
      {"\\Qa", "\\Q"},
      {"a\\", "a backslash at its end"},
      {"\\xFF", "\\x of a single byte"},
      {"(?<n>a)", "'(?<n'"},
      {"(?#a)", "'(?#a'"},
      {"a(?i)b", "'(?i)'"},
      {"(?i:ss)", "'ss' after (?i)"},
      {"(?i:ä)", "a character outside ASCII after (?i)"},
      {"(?i:\\p{Lu})", "a set of characters after (?i)"},
      {"a**", "a quantifier after a quantifier"},
      {"a{2}+", "a quantifier after {…}"},
      {"a{x}", "'{x}'"},
      {"a{9999}", "more than 1000 repetitions"},
      {"*a", "a quantifier without anything before it"},
      {"(?<=a+)b", "is invalid"},
      {"a\xFF", "a byte that is not UTF-8"},
  };
  for (const auto& fault : faults)
    EXPECT_NE(message(fault.pattern).find(fault.says), std::string::npos)
        << fault.pattern << " gave: " << message(fault.pattern);
  EXPECT_NE(message(std::string(70'000, 'a')), "");
  EXPECT_NE(message(std::string(5'000, '(') + "a" + std::string(5'000, ')')), "");
  EXPECT_NE(message(std::string(5'000, '[') + "a" + std::string(5'000, ']')), "");
}

// Backtracking of these is exponential or quadratic in the text.
TEST(Expression, L7_HostileExpressionsAreRefused) {
  for (const char* pattern :
       {"(a+)+b", "(a|a)*b", "(a|aa)+c", "(?:a*)*b", "(.*)*x", "(?>(a|a)*b)|c", "a+b", "a++b|a",
        "a*a*a*a*b", "(?=a*b)a|[^a]", "[ab]+c", "(ab)+c", "[\\s\\S]*?x", "\\p{L}+(?=\\p{N})"}) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_NE(message(pattern).find("can take more than linear time"), std::string::npos)
        << pattern << " gave: " << message(pattern);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20)) << pattern;
  }
}

// Runs as long as the text are normal: the limits must allow them.
TEST(Expression, L7_LongRunsAreMatched) {
  const std::string spaces(2'000'000, ' ');
  size_t count = 0;
  Expression("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+").each_match(spaces + "a", [&](PatternMatch m) {
    if (count == 0) {
      EXPECT_EQ(m.end, spaces.size() - 1);
    }
    ++count;
  });
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(matches("(?:ab)+", spaces.substr(0, 10) + "abab").size(), 1u);
}

}  // namespace
}  // namespace tessera::data

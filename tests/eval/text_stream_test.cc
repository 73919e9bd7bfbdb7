#include "eval/text_stream.h"

#include <gtest/gtest.h>

#include "tests/byte_tokenizer.h"

namespace tessera::eval {
namespace {

std::unique_ptr<data::Tokenizer> bytes() { return data::make_tokenizer(byte_tokenizer(), "test"); }

std::vector<std::string> pieces(TextStream& s, const data::Tokenizer& t, std::string_view text) {
  std::vector<std::string> out;
  for (const int32_t id : t.encode(text)) out.push_back(s.add(id));
  out.push_back(s.finish());
  return out;
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string out;
  for (const std::string& p : pieces) out += p;
  return out;
}

TEST(TextStream, NeverCutsACharacter) {
  const auto t = bytes();
  const std::string text = "a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80z";
  TextStream s(*t, {});
  const std::vector<std::string> p = pieces(s, *t, text);
  EXPECT_EQ(p, (std::vector<std::string>{"a", "", "\xC3\xA4", "", "", "\xE2\x82\xAC", "", "", "",
                                         "\xF0\x9F\x98\x80", "z", ""}));
}

// The end of a text inside a character, and a byte that is not UTF-8 at all.
TEST(TextStream, ReplacesWhatIsNotUtf8) {
  const auto t = bytes();
  TextStream cut(*t, {});
  EXPECT_EQ(joined(pieces(cut, *t, "a\xE2\x82")), "a\xEF\xBF\xBD\xEF\xBF\xBD");
  TextStream wrong(*t, {});
  EXPECT_EQ(joined(pieces(wrong, *t, "a\xFFz")), "a\xEF\xBF\xBDz");
}

TEST(TextStream, EndsBeforeAStopText) {
  const auto t = bytes();
  TextStream s(*t, {}, {"END", "ab\n"});
  EXPECT_EQ(joined(pieces(s, *t, "one EN two ab EE ENDthree")), "one EN two ab EE ");
  EXPECT_TRUE(s.stopped());
  EXPECT_EQ(s.add(t->encode("x")[0]), "");
}

TEST(TextStream, HoldsBackWhatMayBecomeAStopText) {
  const auto t = bytes();
  TextStream s(*t, {}, {"stop"});
  EXPECT_EQ(pieces(s, *t, "astox"), (std::vector<std::string>{"a", "", "", "", "stox", ""}));
  TextStream last(*t, {}, {"stop"});
  EXPECT_EQ(joined(pieces(last, *t, "asto")), "asto");
  EXPECT_FALSE(last.stopped());
}

TEST(TextStream, OmitsSpecialTokensUnlessAsked) {
  const auto t = bytes();
  TextStream s(*t, {});
  EXPECT_EQ(joined(pieces(s, *t, "a<|endoftext|>b")), "ab");
  TextStream shown(*t, {}, {}, true);
  EXPECT_EQ(joined(pieces(shown, *t, "a<|endoftext|>b")), "a<|endoftext|>b");
}

TEST(TextStream, EndsAtASpecialTokenWhoseNameIsAStopText) {
  const auto t = bytes();
  TextStream s(*t, {}, {"<|endoftext|>", "ab!"});
  EXPECT_EQ(joined(pieces(s, *t, "xab<|endoftext|>y")), "xab");
  EXPECT_TRUE(s.stopped());
}

std::vector<int64_t> offsets(TextStream& s, const data::Tokenizer& t, std::string_view text) {
  std::vector<int64_t> out;
  for (const int32_t id : t.encode(text)) {
    s.add(id);
    out.push_back(s.offset());
  }
  return out;
}

TEST(TextStream, CountsTheCharactersBeforeAToken) {
  const auto t = bytes();
  using Offsets = std::vector<int64_t>;
  const auto of = [&](std::string_view text, bool special = false) {
    TextStream s(*t, t->encode("b\xC3\xA4"), {}, special);
    return offsets(s, *t, text);
  };
  EXPECT_EQ(of("a\xC3\xA4z"), (Offsets{0, 1, 1, 2}));
  EXPECT_EQ(of("\xE2\x82\xAC\xF0\x9F\x98\x80z"), (Offsets{0, 0, 0, 1, 1, 1, 1, 2}));
  // Bytes that are no character are shown as one each.
  EXPECT_EQ(of("\xE2\xE2z"), (Offsets{0, 1, 2}));
  EXPECT_EQ(of("\xFF\xFFz"), (Offsets{0, 1, 2}));
  EXPECT_EQ(of("\xE2z\xC3\xA4z"), (Offsets{0, 1, 2, 2, 3}));
  // A token without text has the place where it would be.
  EXPECT_EQ(of("a<|endoftext|>b"), (Offsets{0, 1, 1}));
  EXPECT_EQ(of("a<|endoftext|>b", true), (Offsets{0, 1, 14}));
  // Text that is held back because a stop may begin is counted.
  TextStream held(*t, {}, {"stop"});
  EXPECT_EQ(offsets(held, *t, "astox"), (Offsets{0, 1, 2, 3, 4}));
}

TEST(IncompleteBytes, OfTheEndOfAText) {
  EXPECT_EQ(incomplete_bytes(""), 0u);
  EXPECT_EQ(incomplete_bytes("abc"), 0u);
  EXPECT_EQ(incomplete_bytes("a\xC3"), 1u);
  EXPECT_EQ(incomplete_bytes("a\xC3\xA4"), 0u);
  EXPECT_EQ(incomplete_bytes("\xF0\x9F\x98"), 3u);
  EXPECT_EQ(incomplete_bytes("\xF0\x9F\x98\x80"), 0u);
  EXPECT_EQ(incomplete_bytes("\x80\x80\x80\x80\x80"), 0u);
}

TEST(AsUtf8, ReplacesSingleBytes) {
  EXPECT_EQ(as_utf8("a\xFFz\xE2\x82"), "a\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(BegunStop, IsTheLongest) {
  EXPECT_EQ(begun_stop("xxab", {"abc", "b"}), 2u);
  EXPECT_EQ(begun_stop("xxabc", {"abc"}), 0u);
  EXPECT_EQ(begun_stop("aaa", {"aaaa"}), 3u);
  EXPECT_EQ(begun_stop("", {"a"}), 0u);
}

}  // namespace
}  // namespace tessera::eval

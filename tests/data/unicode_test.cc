#include "data/unicode.h"

#include <gtest/gtest.h>

#include <random>

namespace tessera::data {
namespace {

TEST(Utf8, DecodesEveryLengthAndItsLimits) {
  const std::pair<const char*, char32_t> valid[] = {
      {"\x7F", 0x7F},
      {"\xC2\x80", 0x80},
      {"\xDF\xBF", 0x7FF},
      {"\xE0\xA0\x80", 0x800},
      {"\xED\x9F\xBF", 0xD7FF},
      {"\xEF\xBF\xBF", 0xFFFF},
      {"\xF0\x90\x80\x80", 0x10000},
      {"\xF4\x8F\xBF\xBF", 0x10FFFF},
  };
  for (const auto& [text, code] : valid) {
    EXPECT_EQ(decode_utf8(text).code, code);
    EXPECT_EQ(decode_utf8_backwards(std::string("x") + text).code, code);
    EXPECT_EQ(find_invalid_utf8(text), std::string(text).size());
  }
}

TEST(Utf8, RefusesWhatUnicodeDoes) {
  for (const char* text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2\x41", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xE1\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_EQ(decode_utf8(text).code, Utf8::kInvalid) << text;
    EXPECT_EQ(decode_utf8(text).bytes, 1);
    EXPECT_EQ(find_invalid_utf8(std::string(20, 'a') + text), 20u);
  }
}

// The numbers of characters in the three classes that Hugging Face tokenizers 0.23 split by.
TEST(UnicodeTable, HasTheClassesOfUnicode16) {
  const UnicodeTable table;
  int count[4] = {};
  for (char32_t c = 0; c <= 0x10FFFF; ++c) ++count[table[c] & kClassMask];
  EXPECT_EQ(count[kLetter], 141028);
  EXPECT_EQ(count[kNumber], 1911);
  EXPECT_EQ(count[kSpace], 25);
  EXPECT_EQ(table[U'\u1C89'] & kClassMask, kLetter);  // new in Unicode 16
  EXPECT_EQ(table[U'\u180E'] & kClassMask, kOther);   // was a space before Unicode 6.3
  EXPECT_EQ(table[Utf8::kInvalid], kOther);
  EXPECT_TRUE(table[U'\u24B6'] & kWord);
  EXPECT_FALSE(table[U'\u00B2'] & kWord);
}

std::string nfc(std::string_view text) {
  std::string out;
  append_normalized(text, NormalizationForm::kNfc, UnicodeTable(), out);
  return out;
}

TEST(Nfc, ComposesAndOrders) {
  EXPECT_EQ(nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(nfc("a\u0301\u0323"), "\u1EA1\u0301");
  EXPECT_EQ(nfc("\u1112\u1161\u11AB"), "\uD55C");
  EXPECT_EQ(nfc("\u212B"), "\u00C5");
  EXPECT_EQ(nfc("plain"), "plain");
}

// Canonical ordering as the standard words it: neighbors are exchanged until none is out of order.
std::string ordered_by_exchanges(std::vector<std::pair<int, std::string>> marks) {
  for (size_t i = 1; i < marks.size(); ++i)
    for (size_t k = i; k > 0 && marks[k - 1].first > marks[k].first; --k)
      std::swap(marks[k - 1], marks[k]);
  std::string out;
  for (const auto& [rank, text] : marks) out += text;
  return out;
}

TEST(Nfc, L6_RunsOfMarksAreOrderedStably) {
  const std::pair<int, std::string> marks[] = {{230, "\u0300"}, {230, "\u0306"}, {220, "\u0316"},
                                               {220, "\u0331"}, {202, "\u0327"}, {1, "\u0334"},
                                               {216, "\u031B"}, {240, "\u0345"}};
  std::mt19937 random(6);
  for (int run = 0; run < 300; ++run) {
    std::vector<std::pair<int, std::string>> drawn;
    std::string text;
    for (auto n = random() % 40; n > 0; --n) {
      drawn.push_back(marks[random() % std::size(marks)]);
      text += drawn.back().second;
    }
    EXPECT_EQ(nfc("q" + text + "q"), "q" + ordered_by_exchanges(drawn) + "q");  // q never composes
  }
}

// Two million marks, a class of 230 before one of 220 each: exchanging neighbors would take hours.
TEST(Nfc, L6_ManyMarksTakeTimeInProportion) {
  constexpr int kPairs = 1'000'000;
  std::string text = "q", low, high;
  for (int i = 0; i < kPairs; ++i) {
    text += "\u0306\u0316";
    low += "\u0316";
    high += "\u0306";
  }
  EXPECT_EQ(nfc(text), "q" + low + high);
}

TEST(Nfc, LeavesYoungCharactersAndBadBytesAsTheyAre) {
  EXPECT_EQ(nfc("a\u08D3\u0301"), "a\u08D3\u0301");  // Unicode 11: its class is not known
  EXPECT_EQ(nfc("\U00011935\U00011930"), "\U00011935\U00011930");  // Unicode 13: no pair
  EXPECT_EQ(nfc("e\xFF\u0301"), "e\xFF\u0301");
  EXPECT_EQ(nfc("\xC3"), "\xC3");
}

TEST(Nfc, SaysWhatMayChange) {
  const UnicodeTable table;
  EXPECT_FALSE(may_change_under_nfc("caf\u00E9 \u6771\u4EAC \xFF", table));
  EXPECT_TRUE(may_change_under_nfc("cafe\u0301", table));
  EXPECT_TRUE(may_change_under_nfc("\u212B", table));
}

}  // namespace
}  // namespace tessera::data

#include "data/unigram_segmenter.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera::data {
namespace {

using Ids = std::vector<int32_t>;

SentencePieceModel model_of(std::vector<SentencePieceModel::Piece> pieces) {
  SentencePieceModel m;
  m.pieces = {{"<unk>", 0, PieceType::kUnknown}, {"</s>", 0, PieceType::kControl}};
  m.pieces.insert(m.pieces.end(), pieces.begin(), pieces.end());
  return m;
}

Ids cut(const SentencePieceModel& m, const std::string& text) {
  Ids ids;
  UnigramSegmenter(m).cut(text, ids);
  return ids;
}

TEST(UnigramSegmenter, TakesTheLikeliestPieces) {
  const SentencePieceModel m = model_of({{"a", -1}, {"b", -1}, {"ab", -1.5f}, {"abc", -9}});
  EXPECT_EQ(cut(m, "ab"), (Ids{4}));
  EXPECT_EQ(cut(m, "aab"), (Ids{2, 4}));
  EXPECT_EQ(cut(m, ""), Ids{});
  EXPECT_EQ(cut(m, "abc"), (Ids{5}));  // below it by the penalty for c alone
}

TEST(UnigramSegmenter, KeepsTheFirstOfEqualSums) {
  // Found from the left: what ends with the last piece is replaced only by more.
  const SentencePieceModel m = model_of({{"V", -2}, {"VI", -3}, {"II", -3}, {"I", -2}});
  EXPECT_EQ(cut(m, "VII"), (Ids{2, 4}));  // V II before VI I
  EXPECT_EQ(cut(m, "VI"), (Ids{3}));
}

TEST(UnigramSegmenter, CharactersWithoutAPieceAreUnknownOrBytes) {
  SentencePieceModel m = model_of({{"a", -1}});
  EXPECT_EQ(cut(m, "a\u6f22\u6f22a"), (Ids{2, 0, 2}));  // a run is one
  m.byte_fallback = true;
  for (int b = 0; b < 256; ++b)
    m.pieces.push_back(
        {"<0x" + std::string(1, "0123456789ABCDEF"[b / 16]) + "0123456789ABCDEF"[b % 16] + ">", 0,
         PieceType::kByte});
  EXPECT_EQ(cut(m, "a\u6f22"), (Ids{2, 3 + 0xe6, 3 + 0xbc, 3 + 0xa2}));
}

TEST(UnigramSegmenter, SymbolsOfTheUserWinAndUnusedPiecesNever) {
  const SentencePieceModel m = model_of({{"a", -0.1f},
                                         {"b", -0.1f},
                                         {"ab", -0.1f},
                                         {"abab", 0, PieceType::kUserDefined},
                                         {"aba", 0, PieceType::kUnused}});
  EXPECT_EQ(cut(m, "abab"), (Ids{5}));
  EXPECT_EQ(cut(m, "aba"), (Ids{4, 2}));
}

TEST(UnigramSegmenter, LongTextsAreCutAsShortOnes) {
  // In float a sum of −500,000 swallows by how much VI I is better than V II, which comes first.
  const SentencePieceModel m =
      model_of({{"V", -2}, {"VI", -2.99f}, {"II", -3}, {"I", -2}, {"-", -30}});
  std::string text;
  Ids wanted;
  for (int i = 0; i < 20000; ++i) {
    text += "VII-";
    wanted.insert(wanted.end(), {3, 5, 6});
  }
  EXPECT_EQ(cut(m, text), wanted);
}

}  // namespace
}  // namespace tessera::data

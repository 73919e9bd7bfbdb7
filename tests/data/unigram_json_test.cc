#include "data/sentencepiece_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/tree.h"
#include "data/tokenizer.h"

namespace tessera::data {
namespace {

SentencePieceModel::Piece piece(const char* text, float score, PieceType type) {
  return {text, score, type};
}

SentencePieceModel sample() {
  SentencePieceModel model;
  model.pieces = {piece("<pad>", 0, PieceType::kControl),
                  piece("</s>", 0, PieceType::kControl),
                  piece("<unk>", 0, PieceType::kUnknown),
                  piece("\u2581a", -2.5F, PieceType::kNormal),
                  piece("<sep>", 0, PieceType::kUserDefined),
                  piece("\u2581<extra_id_0>", 0, PieceType::kUserDefined)};
  model.characters_map = "Many hands make light work.";
  return model;
}

std::string at(const Tree& tree, std::initializer_list<const char*> path) {
  const Tree* found = &tree;
  for (const char* name : path) found = found ? found->find(name) : nullptr;
  return found ? to_json(*found) : "nothing";
}

TEST(UnigramJson, SaysWhatTheModelSays) {
  SentencePieceModel model = sample();
  model.byte_fallback = true;
  const Tree json = parse_json(unigram_tokenizer_json(model, {"", "</s>"}), "json");
  EXPECT_EQ(at(json, {"model", "unk_id"}), "2");
  EXPECT_EQ(at(json, {"model", "byte_fallback"}), "true");
  EXPECT_EQ(at(json, {"model", "vocab"}),
            "[[\"<pad>\",0.0],[\"</s>\",0.0],[\"<unk>\",0.0],[\"\u2581a\",-2.5],[\"<sep>\",0.0],"
            "[\"\u2581<extra_id_0>\",0.0]]");
  EXPECT_EQ(at(json, {"pre_tokenizer", "prepend_scheme"}), "\"always\"");
  EXPECT_EQ(at(json, {"post_processor", "special_tokens", "</s>", "ids"}), "[1]");
  std::string added;
  for (const Tree& token : *json.find("added_tokens")->as_list())
    added += at(token, {"id"}) + at(token, {"special"}) + " ";
  EXPECT_EQ(added, "0true 1true 2true 4false ");
}

TEST(UnigramJson, TokensStandAroundATextWhereTheModelHasThem) {
  SentencePieceModel model = sample();
  model.pieces.push_back(piece("<s>", 0, PieceType::kControl));
  const auto made = [&](const TextTemplate& around) {
    return parse_json(unigram_tokenizer_json(model, around), "json");
  };
  const Tree both = made({"<s>", "</s>"});
  EXPECT_EQ(at(both, {"post_processor", "special_tokens", "<s>", "ids"}), "[6]");
  EXPECT_EQ(at(both, {"post_processor", "special_tokens", "</s>", "ids"}), "[1]");
  const std::string begin = R"({"SpecialToken":{"id":"<s>","type_id":0}})";
  const std::string end = R"({"SpecialToken":{"id":"</s>","type_id":0}})";
  const auto sequence = [](const std::string& id) {
    return R"({"Sequence":{"id":")" + id + R"(","type_id":0}})";
  };
  EXPECT_EQ(at(both, {"post_processor", "single"}),
            "[" + begin + "," + sequence("A") + "," + end + "]");
  EXPECT_EQ(at(both, {"post_processor", "pair"}), "[" + begin + "," + sequence("A") + "," + end +
                                                      "," + begin + "," + sequence("B") + "," +
                                                      end + "]");
  const TextTemplate back = read_text_template(made({"<s>", ""}));
  EXPECT_EQ(back.begin, "<s>");
  EXPECT_EQ(back.end, "");
  EXPECT_EQ(at(made({"<bos>", "<eos>"}), {"post_processor"}), "null");
}

// RFC 4648; the padding is one, none and two characters.
TEST(UnigramJson, TheRulesAreInBase64) {
  SentencePieceModel model = sample();
  const auto rules = [&] {
    const Tree json = parse_json(unigram_tokenizer_json(model, {}), "json");
    return at(json.find("normalizer")->find("normalizers")->as_list()->front(),
              {"precompiled_charsmap"});
  };
  EXPECT_EQ(rules(), "\"TWFueSBoYW5kcyBtYWtlIGxpZ2h0IHdvcmsu\"");
  model.characters_map = "Many hands make light work";
  EXPECT_EQ(rules(), "\"TWFueSBoYW5kcyBtYWtlIGxpZ2h0IHdvcms=\"");
  model.characters_map = std::string("\0\xff\xfe\x80", 4);
  EXPECT_EQ(rules(), "\"AP/+gA==\"");
}

TEST(UnigramJson, IsEmptyWhereItCannotSayIt) {
  EXPECT_NE(unigram_tokenizer_json(sample(), {}), "");
  for (int what = 0; what < 3; ++what) {
    SentencePieceModel model = sample();
    if (what == 0) model.kind = SentencePieceKind::kBpe;
    if (what == 1) model.space_as_suffix = true;
    if (what == 2) model.escape_spaces = false;
    EXPECT_EQ(unigram_tokenizer_json(model, {}), "") << what;
  }
}

TEST(UnigramJson, AFolderIsReadByItsModelNotByWhatWasMadeOfIt) {
  const Path folder = std::filesystem::temp_directory_path() / fmt::format("uj{}", ::getpid());
  std::filesystem::create_directories(folder);
  write_file(folder / "tokenizer.json", "{}");
  write_file(folder / "tokenizer.model", "IQ== 0\n");  // of another kind under that name
  EXPECT_EQ(tokenizer_file(folder), folder / "tokenizer.json");
  write_file(folder / "spiece.model", "\n\x05");
  EXPECT_EQ(tokenizer_file(folder), folder / "spiece.model");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera::data

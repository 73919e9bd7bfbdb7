#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/tree.h"
#include "base/wire_message.h"
#include "data/character_map.h"
#include "data/sentencepiece_tokenizer.h"
#include "data/sentencepiece_trainer.h"

namespace tessera::data {
namespace {

using Ids = std::vector<int32_t>;

Path golden(const std::string& name) { return Path(TEST_DATA) / "golden_sentencepiece" / name; }

SentencePieceTokenizer golden_tokenizer(const std::string& name) {
  return {read_file(golden(name + ".model")), name};
}

struct Case {
  std::string text, decoded;
  Ids ids;
};

std::vector<Case> golden_cases(const std::string& name) {
  std::vector<Case> cases;
  const std::string file = read_file(golden(name + ".jsonl"));
  for (size_t from = 0; from < file.size();) {
    const size_t end = file.find('\n', from);
    const Tree line = parse_json(std::string_view(file).substr(from, end - from), name);
    Case c{*line.find("text")->as_string(), *line.find("decoded")->as_string(), {}};
    for (const Tree& id : *line.find("ids")->as_list()) {
      c.ids.push_back(static_cast<int32_t>(std::get<int64_t>(id.value)));
    }
    cases.push_back(std::move(c));
    from = end + 1;
  }
  return cases;
}

class Golden : public ::testing::TestWithParam<const char*> {};

TEST_P(Golden, GivesTheIdsOfSentencePiece) {
  const SentencePieceTokenizer tokenizer = golden_tokenizer(GetParam());
  EncodeCache cache;
  for (const Case& c : golden_cases(GetParam())) {
    for (int again = 0; again < 2; ++again) {  // the second time words come from the cache
      Ids ids;
      tokenizer.encode(c.text, ids, cache, nullptr);
      ASSERT_EQ(ids, c.ids) << c.text;
    }
    EncodeReport report;
    Ids ids;
    tokenizer.encode(c.text, ids, cache, &report);
    EXPECT_EQ(report.bytes, std::ssize(c.text));
    EXPECT_EQ(report.replaced_bytes, 0);
  }
}

// The package leaves out the space in front; of T5's kind, which keeps no spaces there, all of
// them.
TEST_P(Golden, DecodesWithTheSpaceInFront) {
  const SentencePieceTokenizer tokenizer = golden_tokenizer(GetParam());
  for (const Case& c : golden_cases(GetParam())) {
    std::string ours = tokenizer.decode(c.ids), wanted = c.ids.empty() ? "" : " " + c.decoded;
    if (tokenizer.model().remove_extra_spaces) {
      EXPECT_TRUE(c.ids.empty() || ours.starts_with(' ') || c.text.starts_with("<s")) << c.text;
      ours.erase(0, ours.find_first_not_of(' '));
      wanted.erase(0, wanted.find_first_not_of(' '));
    }
    EXPECT_EQ(ours, wanted);
  }
}

INSTANTIATE_TEST_SUITE_P(SentencePiece, Golden, ::testing::Values("unigram", "bpe"));

TEST(SentencePiece, KnowsItsSpecialPieces) {
  const SentencePieceTokenizer bpe = golden_tokenizer("bpe"), unigram = golden_tokenizer("unigram");
  EXPECT_EQ(bpe.end_of_text(), 2);
  EXPECT_EQ(unigram.end_of_text(), 1);
  EXPECT_EQ(bpe.token_bytes(2), "</s>");
  EXPECT_EQ(bpe.token_bytes(3 + 0xE9), "\xE9");
  EXPECT_THROW(bpe.token_bytes(-1), Error);
  EXPECT_THROW(bpe.token_bytes(bpe.vocabulary_size()), Error);
  EXPECT_NE(bpe.fingerprint(), unigram.fingerprint());
  EXPECT_EQ(bpe.sentinels(), 0);
}

TEST(SentencePiece, CountsBytesThatAreNoUtf8) {
  const SentencePieceTokenizer bpe = golden_tokenizer("bpe");
  EncodeCache cache;
  EncodeReport report;
  Ids ids;
  bpe.encode("a\xFF b", ids, cache, &report);
  EXPECT_EQ(bpe.decode(ids), " a\uFFFD b");
  EXPECT_EQ(report.replaced_bytes, 1);
  EXPECT_EQ(report.first_invalid, 1);
}

// T5's: <extra_id_0> has the largest id.
TEST(SentencePiece, SentinelsStandBehindAllOthers) {
  const std::string bytes = read_file(golden("unigram.model"));
  const SentencePieceTokenizer without(bytes, "u"), with(with_sentinels(bytes, 100), "u");
  const int32_t last = without.vocabulary_size() + 99;
  EXPECT_EQ(with.vocabulary_size(), last + 1);
  EXPECT_EQ(with.sentinels(), 100);
  EXPECT_EQ(with.token_bytes(last), " <extra_id_0>");
  EXPECT_EQ(with.token_bytes(last - 99), " <extra_id_99>");
  EXPECT_EQ(with.encode("the <extra_id_1>"), [&] {
    Ids ids = without.encode("the");
    ids.push_back(last - 1);
    return ids;
  }());
  EXPECT_EQ(with.encode("the miller"), without.encode("the miller"));
}

// A model of few pieces, to be broken in a test.
struct SmallModel {
  struct Piece {
    std::string text;
    float score = 0;
    uint64_t type = 1;
  };
  std::vector<Piece> pieces = {{"<unk>", 0, 2}, {"</s>", 0, 3}, {"\u2581", -1}, {"a", -2}};
  uint64_t kind = 1;
  bool byte_fallback = false;
  std::string map;

  std::string bytes() const {
    std::string out, trainer, normalizer;
    for (const Piece& p : pieces) {
      std::string one;
      append_wire_bytes(one, 1, p.text);
      append_wire_float(one, 2, p.score);
      append_wire_varint(one, 3, p.type);
      append_wire_bytes(out, 1, one);
    }
    append_wire_varint(trainer, 3, kind);
    append_wire_varint(trainer, 35, byte_fallback ? 1 : 0);
    append_wire_bytes(out, 2, trainer);
    append_wire_bytes(normalizer, 2, map);
    append_wire_bytes(out, 3, normalizer);
    return out;
  }
  std::string message() const {
    try {
      SentencePieceTokenizer(bytes(), "m.model");
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }
};

void expect_says(const SmallModel& model, const std::string& part) {
  EXPECT_NE(model.message().find(part), std::string::npos) << model.message();
}

TEST(SentencePiece, SaysWhatIsWrongWithAModel) {
  EXPECT_EQ(SmallModel().message(), "none");
  SmallModel m;
  m.pieces.push_back({"a", -3});
  expect_says(m, "m.model: piece 4 ('a') is a duplicate");
  m.pieces.back() = {"", -3};
  expect_says(m, "piece 4 ('') is empty");
  m.pieces.back() = {"b", std::nanf("")};
  expect_says(m, "piece 4 ('b') has a score that is not finite");
  m.pieces.back() = {"\xFF", -3};
  expect_says(m, "is not UTF-8");
  m.pieces.back() = {"b", -3, 9};
  expect_says(m, "a piece has type 9, expected 1 to 6");
  m.pieces.back() = {"<0xZZ>", 0, 6};
  expect_says(m, "piece 4 ('<0xZZ>') is a byte piece, expected <0x00> to <0xFF>");
  m.pieces.back() = {"<0x41>", 0, 6};
  expect_says(m, "1 pieces for bytes, expected 0 without byte fallback");
  m.pieces.pop_back();
  m.byte_fallback = true;
  expect_says(m, "0 pieces for bytes, expected 256 with byte fallback");
  m = {};
  m.kind = 3;
  expect_says(m, "a model of kind 3 (word), expected unigram (1) or bpe (2)");
  m = {};
  m.pieces[0].type = 1;
  expect_says(m, "0 unknown pieces, expected one");
  m = {};
  m.map = std::string("\0\4\0\0", 4) + std::string(1024, '\xFF') + "x";
  expect_says(m, "the normalizer's");
  m = {};
  m.pieces.clear();
  expect_says(m, "has no pieces");
}

// Whatever is cut off or changed ends in an Error or in a tokenizer that works.
TEST(SentencePiece, BearsDamagedFiles) {
  std::mt19937 random(3);
  int refused = 0;
  for (const char* name : {"unigram", "bpe"}) {
    const std::string bytes = read_file(golden(std::string(name) + ".model"));
    for (int i = 0; i < 400; ++i) {
      std::string broken = bytes;
      if (i % 2 == 0) broken.resize(random() % bytes.size());
      if (i % 2 == 1) broken[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
      try {
        const SentencePieceTokenizer tokenizer(broken, "broken");
        for (const int32_t id : tokenizer.encode("the miller's \uff21, \u6f22 1742"))
          tokenizer.token_bytes(id);
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 400);
}

NextLine lines_of(const std::string& text) {
  return [&text, from = size_t{0}](std::string& line) mutable {
    if (from >= text.size()) return false;
    const size_t end = std::min(text.find('\n', from), text.size());
    line = text.substr(from, end - from);
    from = end + 1;
    return true;
  };
}

TEST(SentencePieceTrainer, LearnsBothKinds) {
  const std::string text = read_file(Path(TEST_DATA) / "golden_tokenizer" / "text.txt");
  const SentencePieceTraining t5{.vocabulary = 370, .sentinels = 10, .user_tokens = {"<a,\"b>"}};
  const std::string bytes = train_sentencepiece(lines_of(text), t5);
  EXPECT_EQ(bytes, train_sentencepiece(lines_of(text), t5));
  const SentencePieceTokenizer unigram(bytes, "t5");
  EXPECT_EQ(unigram.vocabulary_size(), 370);
  EXPECT_EQ(unigram.sentinels(), 10);
  EXPECT_EQ(unigram.end_of_text(), 1);
  EXPECT_EQ(unigram.model().control_id("<pad>"), 0);
  EXPECT_EQ(unigram.decode(unigram.encode("the  m\ufb01ller \u6f22<a,\"b>")),
            " the mfiller \u6f22<a,\"b>");

  const SentencePieceTraining llama{.kind = SentencePieceKind::kBpe, .vocabulary = 400};
  const SentencePieceTokenizer bpe(train_sentencepiece(lines_of(text), llama), "llama");
  EXPECT_EQ(bpe.end_of_text(), 2);
  EXPECT_EQ(bpe.decode(bpe.encode("the  m\ufb01ller \u6f22")), " the  m\ufb01ller \u6f22");
}

TEST(SentencePieceTrainer, CutsLongLines) {
  std::string text;
  while (text.size() < 20000) text += "miller\t";
  const SentencePieceTraining training{.vocabulary = 266, .coverage = 1};
  const SentencePieceTokenizer tokenizer(train_sentencepiece(lines_of(text), training), "long");
  EXPECT_LT(tokenizer.encode("miller").size(), 4u);
}

TEST(SentencePieceTrainer, SaysWhatIsWrong) {
  const std::string text = "one line\n", none;
  EXPECT_THROW(train_sentencepiece(lines_of(none), {}), Error);
  EXPECT_THROW(train_sentencepiece(lines_of(text), {.vocabulary = 100'000}), Error);
  EXPECT_THROW(train_sentencepiece(lines_of(text), {.vocabulary = 200}), Error);
  EXPECT_THROW(train_sentencepiece(lines_of(text), {.coverage = 2}), Error);
  EXPECT_THROW(train_sentencepiece(lines_of(text), {.normalizer = "nfd"}), Error);
  const NextLine fails = [first = true](std::string& line) mutable {
    line = "first";
    if (std::exchange(first, false)) return true;
    throw Error("t.jsonl:2:1: no JSON");
  };
  try {
    train_sentencepiece(fails, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "t.jsonl:2:1: no JSON");
  }
}

// Words of a BPE model are encoded one by one and remembered; the whole must give the same.
TEST(SentencePiece, CutsOnlyWhereIdsStayTheSame) {
  const std::string text = read_file(Path(TEST_DATA) / "golden_tokenizer" / "text.txt");
  const SentencePieceTraining training{
      .kind = SentencePieceKind::kUnigram, .vocabulary = 360, .normalizer = "nmt_nfkc"};
  const SentencePieceTokenizer unigram(train_sentencepiece(lines_of(text), training), "u");
  EXPECT_TRUE(CharacterMap(unigram.model().characters_map, "u").keeps_word_gaps());
  EXPECT_EQ(unigram.last_cut("two words"), 0u);
  EXPECT_EQ(golden_tokenizer("bpe").last_cut("two words"), 0u);
}

TEST(LoadTokenizer, KnowsAModelByItsBytes) {
  const auto loaded = load_tokenizer(golden("bpe.model"));
  EXPECT_EQ(loaded->vocabulary_size(), golden_tokenizer("bpe").vocabulary_size());
  EXPECT_TRUE(is_tokenizer_json(" \n{}"));
  EXPECT_FALSE(is_tokenizer_json(""));
  EXPECT_FALSE(is_tokenizer_json(SmallModel().bytes()));
  EXPECT_THROW(load_tokenizer(golden("")), Error);  // a folder without a tokenizer
  const Path pointer = std::filesystem::temp_directory_path() / fmt::format("lfs{}", ::getpid());
  write_file(pointer, "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n");
  try {
    load_tokenizer(pointer);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("is a Git LFS pointer"), std::string::npos);
  }
  std::filesystem::remove(pointer);
}

TEST(SentencePiece, ReadsTheSharedModel) {
  const Path path = Path(SHARED_DATA) / "tokenizers" / "llama2.sentencepiece.model";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
  const auto llama = load_tokenizer(path);
  EXPECT_EQ(llama->vocabulary_size(), 32000);
  EXPECT_EQ(llama->end_of_text(), 2);
  EXPECT_EQ(llama->encode("Hello world"), (Ids{15043, 3186}));
}

// A trie of one block and its results: unit 0 leads to unit 96 by an 'a'.
std::string character_map(uint32_t unit_96, uint32_t unit_2, const std::string& results) {
  std::vector<uint32_t> units(256);
  units[0] = 1 << 10;
  units[96] = unit_96;
  units[2] = unit_2;
  const auto bytes = static_cast<uint32_t>(units.size() * 4);
  std::string out(reinterpret_cast<const char*>(&bytes), 4);
  out.append(reinterpret_cast<const char*>(units.data()), bytes);
  return out.append(results) + '\0';
}

TEST(CharacterMap, L7_RulesWithoutEndAreRefused) {
  constexpr uint32_t kLeaf = 256, kValue = uint32_t{1} << 31, kTo2 = 98 << 10, kToItself = 97 << 10;
  EXPECT_NO_THROW(CharacterMap(character_map(kTo2 | kLeaf | 'a', kValue, "b"), "m"));
  EXPECT_NO_THROW(
      CharacterMap(character_map(kTo2 | kLeaf | 'a', kValue, std::string(256, 'b')), "m"));
  EXPECT_THROW(CharacterMap(character_map(kTo2 | kLeaf | 'a', kValue, std::string(257, 'b')), "m"),
               Error);
  EXPECT_THROW(CharacterMap(character_map(kToItself | 'a', 0, "b"), "m"), Error);
}

}  // namespace
}  // namespace tessera::data

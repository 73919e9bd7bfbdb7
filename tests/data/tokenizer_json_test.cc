#include "data/tokenizer_json.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/data/tokenizer_fixture.h"

namespace tessera::data {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  CHECK(at != std::string::npos, "'{}' is not in the text", from);
  return text.replace(at, from.size(), to);
}

// The message for a file; empty if it is read.
std::string message(const std::string& text) {
  try {
    read_tokenizer_json(text, "t.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(TokenizerJson, ReadsWhatItWrites) {
  BpeDescription bpe = small_bpe();
  bpe.normalizer = {{}};  // NFC
  bpe.ignore_merges = true;
  bpe.added_tokens.push_back(
      {.id = 260, .content = "<x>", .single_word = true, .lstrip = true, .special = true});
  const std::string text = write_tokenizer_json(bpe);
  const BpeDescription again = read_tokenizer_json(text, "t.json");
  EXPECT_EQ(again.vocabulary, bpe.vocabulary);
  EXPECT_EQ(again.merges, bpe.merges);
  EXPECT_EQ(again.normalizer, bpe.normalizer);
  EXPECT_TRUE(again.ignore_merges && again.words == PretokenizerKind::kGpt2 &&
              !again.add_prefix_space);
  ASSERT_EQ(again.added_tokens.size(), 1u);
  EXPECT_EQ(write_tokenizer_json(again), text);
}

TEST(TokenizerJson, KnowsTheSplitsOfQwen2AndLlama3) {
  for (const PretokenizerKind words :
       {PretokenizerKind::kOff, PretokenizerKind::kQwen2, PretokenizerKind::kLlama3}) {
    BpeDescription bpe = small_bpe();
    bpe.words = words;
    const std::string text = write_tokenizer_json(bpe);
    EXPECT_EQ(read_tokenizer_json(text, "t.json").words, words);
    EXPECT_EQ(write_tokenizer_json(read_tokenizer_json(text, "t.json")), text);
  }
  BpeDescription bpe = small_bpe();
  bpe.words = PretokenizerKind::kLlama3;
  const std::string good = write_tokenizer_json(bpe);
  // Others are kept as splits, which are slower.
  for (const auto& [from, to] : {std::pair("{1,3}", "{1,2}"), std::pair("Isolated", "Removed"),
                                 std::pair("\"use_regex\": false", "\"use_regex\": true")}) {
    const BpeDescription other = read_tokenizer_json(replaced(good, from, to), "t.json");
    EXPECT_EQ(other.splits.size(), 1u) << to;
    EXPECT_NE(other.words, PretokenizerKind::kLlama3) << to;
  }
}

TEST(TokenizerJson, KnowsWhatATemplatePutsAroundAText) {
  BpeDescription bpe = small_bpe();
  bpe.added_tokens.push_back({.id = 260, .content = "</s>", .special = true});
  const std::string plain = write_tokenizer_json(bpe);
  EXPECT_EQ(tokenizer_of(read_tokenizer_json(plain, "t.json")).source_end(), std::nullopt);
  EXPECT_EQ(tokenizer_of(read_tokenizer_json(plain, "t.json")).end_of_text(), 260);
  const size_t at = plain.find("\"post_processor\":") + 17;
  const std::string sequence = R"({"Sequence": {"id": "A", "type_id": 0}})";
  const std::string end = R"({"SpecialToken": {"id": "</s>", "type_id": 0}})";
  const auto with = [&](const std::string& single) {
    std::string text = plain;
    text.insert(at, R"({"type": "Sequence", "processors": [{"type": "ByteLevel"}, )"
                    R"({"type": "TemplateProcessing", "single": [)" +
                        single + "]}]}, \"was\":");
    const BpeTokenizer made = tokenizer_of(read_tokenizer_json(text, "t.json"));
    return std::pair(made.text_begin().value_or(-1), made.source_end().value_or(-1));
  };
  EXPECT_EQ(with(sequence + ", " + end), std::pair(-1, 260));
  EXPECT_EQ(with(end + ", " + sequence), std::pair(260, -1));
  EXPECT_EQ(with(""), std::pair(-1, -1));
}

TEST(TokenizerJson, ReadsMergesOfOlderFiles) {
  const std::string text = write_tokenizer_json(small_bpe());
  const size_t from = text.find("[", text.find("\"merges\": [") + 11),
               to = text.find("]", from) + 1;
  std::string older = text;
  older.replace(from, to - from, "\"h e\"");
  EXPECT_EQ(read_tokenizer_json(older, "t.json").merges[0],
            (std::array<int32_t, 3>{'h', 'e', 257}));
}

TEST(TokenizerJson, NamesWhatItCannotRead) {
  const std::string good = write_tokenizer_json(small_bpe());
  ASSERT_EQ(message(good), "");
  const struct {
    std::string from, to, says;
  } faults[] = {
      {"\"BPE\"", "\"Unigram\"", "model 'Unigram' is not supported"},
      {"\"normalizer\": null",
       "\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"\"}",
       "normalizer 'Precompiled' is not supported"},
      {"\"normalizer\": null",
       "\"normalizer\": {\"type\": \"Replace\", \"content\": \"\", \"pattern\": {\"Regex\": "
       "\"(a\"}}",
       "'(' without ')'"},
      {"\"ByteLevel\"", "\"BertPreTokenizer\"", "pre_tokenizer 'BertPreTokenizer'"},
      {"\"ByteLevel\"", "\"Metaspace\"", "'replacement' is missing"},
      {"\"ByteLevel\"", "\"Split\"", "'pattern' is missing"},
      {"\"decoder\": {", "\"decoder\": {\"type\": \"Fuse\"}, \"x\": {",
       "decoder 'Fuse' after the pre_tokenizer ByteLevel"},
      {"\"unk_token\": null", "\"unk_token\": \"<unk>\"",
       "unk_token '<unk>' is not in model.vocab"},
      {"\"dropout\": null", "\"dropout\": 0.1", "model.dropout"},
      {"\"end_of_word_suffix\": null", "\"end_of_word_suffix\": \"</w>\"", "end_of_word_suffix"},
      {"\"byte_fallback\": false", "\"byte_fallback\": 2", "byte_fallback"},
      {"\"ignore_merges\": false", "\"ignore_merges\": 1", "must be true or false"},
      {"\"model\"", "\"modell\"", "'model' is missing"},
      {"\"merges\"", "\"merge\"", "'merges' is missing"},
      {"\"!\": 33", "\"!\": 34", "is also the id of another token"},
      {"\"!\": 33", "\"!\": -1", "an integer from 0"},
      {"\"!\": 33", "\"!\": 4194304", "an integer from 0"},
      {"\"!\": 33", "\"!\": 4194303", "may be unused"},
      {"\"!\": 33", "\"!\": \"33\"", "an integer from 0"},
      {"\"he\": 257", "\"hf\": 257", "needs the token 'he'"},
      {"\"added_tokens\": []", "\"added_tokens\": [{\"id\": 7, \"content\": \"<x>\"}]",
       "has id 7, but by its position in the list it is 260"},
      {"\"added_tokens\": []", "\"added_tokens\": [{\"id\": 7, \"content\": \"he\"}]",
       "has id 7, but in model.vocab it is 257"},
      {"\"added_tokens\": []", "\"added_tokens\": [{\"content\": \"<x>\"}]", "'id' is missing"},
      {"\"added_tokens\": []", "\"added_tokens\": {}", "must be a list"},
  };
  for (const auto& fault : faults) {
    const std::string found = message(replaced(good, fault.from, fault.to));
    EXPECT_NE(found.find(fault.says), std::string::npos) << fault.to << " gave: " << found;
    EXPECT_TRUE(found.starts_with("t.json:")) << found;
  }
  EXPECT_NE(message(good.substr(0, good.size() / 2)), "");
  EXPECT_NE(message(""), "");
  EXPECT_NE(message("[]"), "");
}

// Neither the number of steps nor their product may exhaust the stack or the memory.
TEST(TokenizerJson, StepsAreBounded) {
  const std::string good = write_tokenizer_json(small_bpe());
  const auto with = [&](int count, const std::string& step) {
    std::string list;
    for (int i = 0; i < count; ++i) list += (i == 0 ? "" : ", ") + step;
    return message(
        replaced(good, "\"normalizer\": null",
                 "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [" + list + "]}"));
  };
  EXPECT_EQ(with(64, "{\"type\": \"Lowercase\"}"), "");
  EXPECT_NE(with(65, "{\"type\": \"Lowercase\"}").find("more than 64 steps"), std::string::npos);
  const std::string doubles =
      "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"aa\"}";
  EXPECT_EQ(with(12, doubles), "");
  EXPECT_NE(with(13, doubles).find("times longer"), std::string::npos);
  EXPECT_NE(message(replaced(good, "\"ByteLevel\"", "\"Metaspace\", \"replacement\": \"ab\""))
                .find("must be one character"),
            std::string::npos);
}

TEST(TokenizerJson, L7_LongAddedTokensAreRefused) {
  BpeDescription bpe = small_bpe();
  bpe.added_tokens.push_back({static_cast<int32_t>(bpe.vocabulary.size()), std::string(512, 'x')});
  EXPECT_NO_THROW(read_tokenizer_json(write_tokenizer_json(bpe), "t.json"));
  for (const size_t bytes : {513u, 20'000u}) {
    bpe.added_tokens[0].content.assign(bytes, 'x');
    EXPECT_THROW(read_tokenizer_json(write_tokenizer_json(bpe), "t.json"), Error) << bytes;
  }
}

// Each token absorbs the spaces after it: the run of spaces is read once, not once per token.
TEST(TokenizerJson, L7_TokensThatTakeSpacesTakeTimeInProportion) {
  BpeDescription bpe = small_bpe();
  AddedToken token;
  token.id = static_cast<int32_t>(bpe.vocabulary.size());
  token.content = " ";
  token.rstrip = true;
  bpe.added_tokens.push_back(token);
  const BpeTokenizer tokenizer = tokenizer_of(bpe);
  EXPECT_EQ(tokenizer.encode("a  b"), (std::vector<int32_t>{'a', token.id, token.id, 'b'}));
  EXPECT_EQ(tokenizer.encode(std::string(1'000'000, ' ')).size(), 1'000'000u);
}

TEST(TokenizerJson, SpellsBytesAsGpt2Does) {
  EXPECT_EQ(bytes_to_characters(" a\n\xFF\xAD"), "\u0120a\u010A\u00FF\u0143");
  for (int b = 0; b < 256; ++b) {
    const std::string byte(1, static_cast<char>(b));
    EXPECT_EQ(characters_to_bytes(bytes_to_characters(byte)), byte);
  }
  EXPECT_EQ(characters_to_bytes("two words"), "two words");
}

}  // namespace
}  // namespace tessera::data

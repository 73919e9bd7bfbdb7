// The tokenizer of a Hugging Face folder, and the ids before and after a text, through import and
// export.
#include <fstream>

#include "checkpoint/hf_source.h"
#include "tests/checkpoint/hf_folder.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;

TEST_F(HfFolder, TheTokenizerGoesAlongAndGivesTheEndOfText) {
  write_folder(at("hf"), small(model::Family::kNeox), DType::kF32);
  const std::string tokenizer =
      R"({"added_tokens": [{"id": 5, "content": "<pad>"}, {"id": 7, "content": "<|endoftext|>"}]})";
  write_file(at("hf") / "tokenizer.json", tokenizer);
  EXPECT_TRUE(import_hf(at("hf"), at("checkpoint"), "0.1.0").has_tokenizer);
  int64_t last = -1, number = 0;
  const HfExport made = export_hf(at("checkpoint"), at("back"), {},
                                  [&](int64_t done, int64_t all) { last = done, number = all; });
  EXPECT_EQ(last, made.tensors - 1);
  EXPECT_EQ(number, made.tensors);
  EXPECT_EQ(made.end_of_text, 7);
  EXPECT_EQ(read_file(at("back") / "tokenizer.json"), tokenizer);
  const Tree config = parse_json(read_file(at("back") / "config.json"), "config.json");
  EXPECT_EQ(to_json(*config.find("eos_token_id")), "7");
}

// generation_config.json counts before config.json; what it says comes back.
TEST_F(HfFolder, TheEndsOfTextsGoAlong) {
  write_folder(at("hf"), small(model::Family::kLlama), DType::kF32);
  const auto stops = [&] { return hf_text_rules(open_hf(at("hf")).header).stops; };
  EXPECT_EQ(stops(), std::vector<int32_t>());
  Tree config = parse_json(read_file(at("hf") / "config.json"), "config.json");
  config.set("eos_token_id", Tree(int64_t{2}));
  write_file(at("hf") / "config.json", to_json(config));
  EXPECT_EQ(stops(), std::vector<int32_t>{2});
  write_file(at("hf") / "generation_config.json", R"({"eos_token_id": [5, 7]})");
  EXPECT_EQ(stops(), (std::vector<int32_t>{5, 7}));
  import_hf(at("hf"), at("checkpoint"), "0.1.0");
  export_hf(at("checkpoint"), at("back"), {});
  for (const char* name : {"config.json", "generation_config.json"}) {
    const Tree back = parse_json(read_file(at("back") / name), name);
    EXPECT_EQ(to_json(*back.find("eos_token_id")), "[5,7]") << name;
  }
}

// A token before each text, where the folder says that a SentencePiece model's class puts it there.
TEST_F(HfFolder, WhatBeginsTextsGoesAlong) {
  write_folder(at("hf"), small(model::Family::kLlama), DType::kF32);
  Tree config = parse_json(read_file(at("hf") / "config.json"), "config.json");
  config.set("bos_token_id", Tree(int64_t{1}));
  config.set("eos_token_id", parse_json("[2, 3]", "ids"));
  write_file(at("hf") / "config.json", to_json(config));
  write_file(at("hf") / "tokenizer.model",
             "\n\x03"
             "abc");
  const auto begin = [&] { return hf_text_rules(open_hf(at("hf")).header).begin; };
  const auto end = [&] { return hf_text_rules(open_hf(at("hf")).header).end; };
  EXPECT_EQ(begin(), std::nullopt);
  EXPECT_EQ(end(), std::nullopt);
  const std::string start = R"({"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}})";
  write_file(at("hf") / "tokenizer.json", R"({"post_processor": {"single": [)" + start + "]}}");
  EXPECT_EQ(begin(), 1);
  EXPECT_EQ(end(), std::nullopt);
  write_file(at("hf") / "tokenizer.json", R"({"post_processor": {"single": [)" + start +
                                              R"(, {"SpecialToken": {"id": "</s>"}}]}})");
  EXPECT_EQ(end(), 2);
  write_file(at("hf") / "tokenizer_config.json", R"({"add_bos_token": false})");
  EXPECT_EQ(begin(), std::nullopt);
  EXPECT_EQ(end(), 2);
  write_file(at("hf") / "tokenizer_config.json", R"({"add_eos_token": false})");
  EXPECT_EQ(begin(), 1);
  EXPECT_EQ(end(), std::nullopt);
  fs::remove(at("hf") / "tokenizer.json");
  write_file(at("hf") / "tokenizer_config.json",
             R"({"add_bos_token": true, "add_eos_token": true})");
  EXPECT_EQ(begin(), 1);
  EXPECT_EQ(end(), 2);
  import_hf(at("hf"), at("checkpoint"), "0.1.0");
  export_hf(at("checkpoint"), at("back"), {});
  const Tree back = parse_json(read_file(at("back") / "tokenizer_config.json"), "config");
  EXPECT_EQ(to_json(*back.find("add_bos_token")), "true");
  EXPECT_EQ(to_json(*back.find("add_eos_token")), "true");
}

TEST_F(HfFolder, WhatIsPutAroundTextsIsKeptWithTheTokenizer) {
  CheckpointHeader from, to;
  const auto kept = [&](const char* state, const char* tokenizer, Tree own) {
    from.state = parse_json(state, "state");
    from.tokenizer = "a tokenizer";
    to.state = std::move(own);
    to.tokenizer = tokenizer;
    keep_text_rules(from, to);
    return to_json(to.state);
  };
  const char* all = R"({"imported_from": "x", "stops": [3], "begin": 1, "end": 2, "other": 4})";
  EXPECT_EQ(kept(all, "a tokenizer", {}), R"({"imported_from":"x","begin":1,"end":2})");
  EXPECT_EQ(hf_text_rules(to).begin, 1);
  EXPECT_EQ(hf_text_rules(to).end, 2);
  EXPECT_EQ(kept(all, "a tokenizer", parse_json(R"({"loss_scale": 8})", "own")),
            R"({"loss_scale":8,"imported_from":"x","begin":1,"end":2})");
  EXPECT_EQ(kept(all, "another", {}), "null");
  EXPECT_EQ(kept(R"({"loss_scale": 8})", "a tokenizer", {}), "null");
  EXPECT_EQ(kept("null", "a tokenizer", {}), "null");
}

TEST_F(HfFolder, ASentencePieceModelIsTakenBeforeWhatWasMadeOfIt) {
  write_folder(at("hf"), small(model::Family::kT5), DType::kF32);
  const std::string pieces = "\n\x03piece";
  write_file(at("hf") / "tokenizer.json", R"({"model": {"type": "Unigram"}})");
  write_file(at("hf") / "spiece.model", pieces);
  EXPECT_TRUE(import_hf(at("hf"), at("checkpoint"), "0.1.0").has_tokenizer);
  HfExportOptions options;
  options.sentencepiece = SentencePieceIds{
      .end_of_text = 1, .names = {{"eos_token", "[E]"}}, .tokenizer_json = "{\"made\": 1}"};
  export_hf(at("checkpoint"), at("back"), options);
  EXPECT_EQ(read_file(at("back") / "spiece.model"), pieces);
  EXPECT_EQ(read_file(at("back") / "tokenizer.json"), "{\"made\": 1}");
  const Tree config = parse_json(read_file(at("back") / "tokenizer_config.json"), "config");
  EXPECT_EQ(*config.find("tokenizer_class")->as_string(), "PreTrainedTokenizerFast");
  EXPECT_EQ(*config.find("eos_token")->as_string(), "[E]");
  EXPECT_EQ(config.find("bos_token"), nullptr);  // transformers would add a token for it
  options.sentencepiece->tokenizer_json.clear();
  export_hf(at("checkpoint"), at("again"), options);
  EXPECT_FALSE(fs::exists(at("again") / "tokenizer.json"));
}

}  // namespace
}  // namespace tessera::checkpoint

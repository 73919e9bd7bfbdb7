// Fine-tuning as a new user does it: instructions in ChatML, a checkpoint to start from, a run file
// without a model section, scaled-down recipes, and the messages on the way.
#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

// The byte tokenizer with ChatML's two tokens, 257 and 258.
std::string chat_tokenizer() {
  std::string t = byte_tokenizer(), more;
  int id = 257;
  for (const char* name : {"<|im_start|>", "<|im_end|>"})
    more += fmt::format(
        R"(,{{"id":{},"content":"{}","single_word":false,"lstrip":false,"rstrip":false,)"
        R"("normalized":false,"special":true}})",
        id++, name);
  const std::string end = R"(],"normalizer")";
  return t.insert(t.find(end), more);
}

constexpr const char* kTemplate =
    "\"<|im_start|>user\\n{prompt}<|im_end|>\\n<|im_start|>assistant\\n{response}<|im_end|>\\n\"";

class Defects : public ProgramFolder {
 protected:
  Defects() {
    put("chat.json", chat_tokenizer());
    put("chat.jsonl",
        "{\"prompt\":\"one?\",\"response\":\"uno\"}\n{\"prompt\":\"two?\",\"response\":\"dos\"}\n"
        "{\"prompt\":\"six?\",\"response\":\"seis\"}\n");
    put("sft.yaml", fmt::format("data: {{ tokenizer: chat.json, instructions: [chat.jsonl],\n"
                                "        template: {}, sequence_length: 64 }}\n"
                                "batch: {{ global: 2, micro: 2 }}\n"
                                "optimizer: {{ learning_rate: 5.0e-3 }}\n"
                                "schedule: {{ kind: constant, steps: 2 }}\n"
                                "run: {{ directory: sft, seed: 1, threads: 1 }}\n",
                                kTemplate));
    put("run.yaml",
        "model: { layers: 2, hidden: 64, heads: 4, vocabulary: 257, context: 64 }\n"
        "data: { tokenizer: t.json, train: [d], sequence_length: 32 }\n"
        "batch: { global: 4, micro: 2 }\n"
        "schedule: { steps: 2 }\n"
        "run: { directory: run, seed: 1, threads: 1 }\n");
  }

  static constexpr const char* kModel =
      " model.family=llama model.rotary_pct=1 model.layers=2 model.hidden=64 model.heads=4 "
      "";

  std::string good(const std::string& arguments) const {
    const ProgramResult r = run(arguments);
    EXPECT_EQ(r.code, 0) << arguments << "\n" << r.out << r.err;
    return r.out + r.err;
  }
  Tree json(const std::string& arguments) const {
    const ProgramResult r = run(arguments);
    EXPECT_EQ(r.code, 0) << arguments << "\n" << r.err;
    return r.code == 0 ? parse_json(r.out, "the output") : Tree::object();
  }
  void fails(const std::string& arguments, const std::vector<std::string>& parts,
             int code = 1) const {
    const ProgramResult r = run(arguments);
    EXPECT_EQ(r.code, code) << arguments << "\n" << r.out << r.err;
    for (const std::string& part : parts)
      EXPECT_NE(r.err.find(part), std::string::npos) << arguments << "\n" << part << "\n" << r.err;
  }
  std::string file_key(const std::string& file, const std::string& key) const {
    const Tree t = parse_json(get(file), file);
    return t.find(key) == nullptr ? "none" : to_json(*t.find(key));
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int64_t number(const Tree& t, const std::string& key) {
  const Tree* n = t.find(key);
  const auto* value = n ? std::get_if<int64_t>(&n->value) : nullptr;
  return value ? *value : -1;
}

// The end of a turn is learned, ends what generate writes, and is exported.
TEST_F(Defects, A4_ChatMlEndsItsTurns) {
  good(fmt::format("train sft.yaml {} schedule.steps=250", kModel));
  const std::string prompt =
      "--prompt '<|im_start|>user\ntwo?<|im_end|>\n<|im_start|>assistant\n' --temperature 0 "
      "--max-tokens 8 --json";
  const Tree free = json("generate sft --ignore-end " + prompt);
  const std::string tokens = to_json(*free.find("tokens"));
  EXPECT_TRUE(tokens.starts_with("[100,111,115,258,10,256")) << tokens;
  EXPECT_EQ(to_json(*json("generate sft " + prompt).find("text")), "\"dos\"");
  good("checkpoint export sft --to hf");
  EXPECT_EQ(file_key("hf/generation_config.json", "eos_token_id"), "[258,256]");
  EXPECT_EQ(file_key("hf/config.json", "eos_token_id"), "[258,256]");
}

TEST_F(Defects, B8_PackedInstructionsDoNotSeeEachOther) {
  const Tree data = json(fmt::format(
      "data explain sft.yaml {} model.context=96 data.sequence_length=96 --json", kModel));
  ASSERT_NE(data.find("samples"), nullptr);
  const Tree& sample = data.find("samples")->as_list()->front();
  const size_t examples = sample.find("examples")->as_list()->size();
  ASSERT_GE(examples, 2u);
  int zeros = 0, before = -1;
  const Tree::List& documents = *sample.find("documents")->as_list();
  for (size_t t = 0; t < documents.size(); ++t) {
    const auto document = std::get<int64_t>(documents[t].value);
    if (document < 0) break;
    const auto position = std::get<int64_t>((*sample.find("positions")->as_list())[t].value);
    EXPECT_EQ(position == 0, document != before);
    zeros += position == 0;
    before = static_cast<int>(document);
  }
  EXPECT_EQ(zeros, static_cast<int>(examples));
  EXPECT_TRUE(
      has(good(fmt::format("config print sft.yaml {}", kModel)), "intra_document_masking: true"));
  EXPECT_TRUE(
      has(good(fmt::format("config print sft.yaml {} data.intra_document_masking=false", kModel)),
          "intra_document_masking: false"));
  EXPECT_TRUE(has(good("config print run.yaml"), "intra_document_masking: false"));
  good(fmt::format("train sft.yaml {} data.intra_document_masking=false schedule.steps=1", kModel));
  fails(fmt::format("train sft.yaml {}", kModel),
        {"data.intra_document_masking was false, is now true", "undo the change"});
}

TEST_F(Defects, B1_CountsOfInstructionsAreTold) {
  put("long.jsonl",
      get("chat.jsonl") + "{\"prompt\":\"" + std::string(90, 'p') + "\",\"response\":\"b\"}\n");
  const std::string keys =
      std::string(kModel) +
      "data.instructions=[long.jsonl] data.long_examples=skip schedule.steps=1 ";
  const std::string shown = good("train sft.yaml " + keys);
  EXPECT_TRUE(has(shown, "3 examples in ")) << shown;
  EXPECT_TRUE(has(shown, "skipped: 1 too long")) << shown;
  EXPECT_TRUE(has(good("data explain sft.yaml " + keys), "skipped: 1 too long"));
  for (const char* verb : {"train", "data explain"}) {
    const Tree all = json(fmt::format("{} sft.yaml {} --json run.directory=j", verb, keys));
    ASSERT_NE(all.find("data"), nullptr) << verb;
    const Tree& data = *all.find("data");
    EXPECT_EQ(number(data, "examples"), 3);
    EXPECT_EQ(number(*data.find("skipped"), "too_long"), 1);
    // uno, dos, seis; <|im_end|>, a line's end and the end of text of each
    EXPECT_EQ(number(data, "response_tokens"), 3 + 3 + 4 + 3 * 3);
    // 12 tokens of the roles, prompts of 4 bytes
    EXPECT_EQ(number(data, "tokens"), 3 * (1 + 5 + 4 + 1 + 1 + 1 + 10) + 10 + 9);
    EXPECT_EQ(number(data, "padding"), number(data, "rows") * 64 - (number(data, "tokens") - 3));
  }
}

TEST_F(Defects, B2_B13_TheModelAndTokenizerAreTheCheckpoints) {
  good("train run.yaml model.rope_theta=500000 schedule.steps=1 run.directory=base");
  put("tune.yaml",
      "data: { train: [d], sequence_length: 32 }\n"
      "batch: { global: 4, micro: 2 }\n"
      "schedule: { steps: 2 }\n"
      "checkpoint: { from: base }\n"
      "run: { directory: tuned, seed: 1, threads: 1 }\n");
  const std::string shown = good("train tune.yaml run.stop_after_steps=1");
  EXPECT_FALSE(has(shown, "changed")) << shown;
  EXPECT_TRUE(has(get("tuned/run.yaml"), "rope_theta: 500000"));
  EXPECT_TRUE(has(get("tuned/run.yaml"), "context: 64"));
  // It resumes although the checkpoint that it started from no longer exists.
  std::filesystem::rename(folder_ / "base", folder_ / "moved");
  EXPECT_TRUE(has(good("train tune.yaml"), "resume    step 1 from"));
  std::filesystem::rename(folder_ / "moved", folder_ / "base");
  // Keys that do not change what is computed are free.
  good("train tune.yaml model.dropout=0.1 run.directory=dropped");
  fails("train tune.yaml checkpoint.from=nowhere run.directory=none",
        {"checkpoint.from", "nowhere: there is no such checkpoint"});
}

// The ids of x and y are exchanged.
std::string other_tokenizer() {
  std::string t = byte_tokenizer();
  t.replace(t.find(":120,"), 5, ":000,");
  t.replace(t.find(":121,"), 5, ":120,");
  t.replace(t.find(":000,"), 5, ":121,");
  return t;
}

TEST_F(Defects, WeightsOfAnotherTokenizerAreRefused) {
  put("other.json", other_tokenizer());
  good("data build --tokenizer other.json --out o a.txt");
  good("train run.yaml schedule.steps=1 run.directory=base");
  const std::string again =
      "train run.yaml checkpoint.from=base data.tokenizer=other.json data.train=[o] run.directory=";
  fails(again + "a", {"data.tokenizer: other.json gives other tokens", "base/checkpoints/1",
                      "data.allow_foreign_tokenizer=true"});
  good(again + "b data.allow_foreign_tokenizer=true");
  // A tokenizer that only adds tokens at the end is not a different one.
  good("data build --tokenizer chat.json --out c a.txt");
  good(
      "train run.yaml checkpoint.from=base model.vocabulary=259 data.tokenizer=chat.json "
      "data.train=[c] run.directory=c checkpoint.allow_changes=true");
}

TEST_F(Defects, AdaptersAreNotDroppedInSilence) {
  const std::string lora = "train run.yaml lora.rank=2 schedule.steps=";
  EXPECT_TRUE(has(good(lora + "1"), "warning: lora.rank = 2 without checkpoint.from"));
  fails(lora + "2 'lora.targets=[\"*.attn.*\"]'",
        {"lora.targets was [], is now", "checkpoint merge"});
  fails(lora + "2 lora.alpha=64", {"lora.alpha was 16", "is now 64"});
  fails("train run.yaml checkpoint.from=run run.directory=full",
        {"run/checkpoints/1 holds adapters", "lora.rank is 2 there, 0 in this run"});
  EXPECT_TRUE(has(good(lora + "2"), "trains    0.0"));
  fails(lora + "2 'lora={}'", {"lora={} sets no key"});
  fails(lora + "2 lora=", {"lora= sets no key"});
}

TEST_F(Defects, B2_ContradictionsWithTheCheckpointAreRefused) {
  good("train run.yaml model.rope_theta=500000 schedule.steps=1 run.directory=base");
  const std::string again = "train run.yaml checkpoint.from=base run.directory=";
  fails(again + "a", {"model.rope_theta is 500000.0 there, 10000.0 in this run",
                      "checkpoint.allow_changes=true"});
  fails(again + "b model.rope_theta=500000 model.norm_epsilon=1e-6",
        {"model.norm_epsilon is 1e-05 there, 1e-06 in this run"});
  fails(again + "c model.rope_theta=500000 model.heads=8",
        {"model.heads is 4 there, 8 in this run"});
  fails(again + "d model.rope_theta=500000 model.layers=1", {"model.layers is 2 there, 1 in"});
  // Before memory is planned, which would be too much.
  fails(again + "g model.rope_theta=500000 model.hidden=65536 model.layers=512",
        {"model.hidden is 64 there, 65536 in this run"});
  const std::string told = good(again + "e checkpoint.allow_changes=true");
  EXPECT_TRUE(has(told, "changed   model.rope_theta: 500000.0 → 10000.0")) << told;
  good(again + "f model.rope_theta=500000");
}

TEST_F(Defects, B2_TheModelSectionIsShown) {
  good("train run.yaml schedule.steps=1");
  for (const char* where : {"run", "run/checkpoints/1"}) {
    const std::string shown = good(fmt::format("config print {}", where));
    EXPECT_TRUE(shown.starts_with("model:")) << shown;
    EXPECT_TRUE(has(shown, "hidden: 64") && !has(shown, "batch")) << shown;
  }
  good("checkpoint export run --to hf");
  EXPECT_TRUE(has(good("config print hf"), "hidden: 64"));
  const Tree all = json("checkpoint ls run --json");
  ASSERT_NE(all.find("checkpoints")->as_list()->front().find("model"), nullptr);
  EXPECT_EQ(number(*all.find("checkpoints")->as_list()->front().find("model"), "hidden"), 64);
}

// Chat templates, names of special tokens and sampling defaults, through training and a merge.
TEST_F(Defects, B5_ChatTemplatesAndSamplingDefaultsSurvive) {
  good(fmt::format("train sft.yaml {} schedule.steps=1", kModel));
  good("checkpoint export sft --to hf");
  const std::string jinja = "{% for m in messages %}{{ m['content'] }}{% endfor %}\n";
  put("hf/chat_template.jinja", "\xff");
  fails("checkpoint import --from hf --out i.checkpoint",
        {"hf/chat_template.jinja: byte 0 is not UTF-8"});
  put("hf/chat_template.jinja", jinja);
  std::filesystem::create_directories(folder_ / "hf/additional_chat_templates");
  put("hf/additional_chat_templates/tool_use.jinja", "tools");
  put("hf/tokenizer_config.json",
      R"({"tokenizer_class":"X","chat_template":"{{ bos_token }}","bos_token":null,)"
      R"("eos_token":"<|im_end|>","pad_token":"<|endoftext|>"})");
  put("hf/generation_config.json",
      R"({"eos_token_id":[258,256],"temperature":0.6,"top_p":0.95,"do_sample":true,)"
      R"("pad_token_id":256,"transformers_version":"4.40.0"})");
  good("checkpoint import --from hf --out i.checkpoint");
  put("tune.yaml", get("sft.yaml") + "checkpoint: { from: i.checkpoint }\n");
  good("train tune.yaml run.directory=full");
  good("train tune.yaml run.directory=lora lora.rank=2");
  good("checkpoint merge lora --out merged");
  good("train tune.yaml run.directory=direct checkpoint.from=hf");
  for (const char* made : {"i.checkpoint", "full", "merged", "direct"}) {
    SCOPED_TRACE(made);
    std::filesystem::remove_all(folder_ / "back");
    good(fmt::format("checkpoint export {} --to back", made));
    ASSERT_TRUE(std::filesystem::exists(folder_ / "back/chat_template.jinja"));
    EXPECT_EQ(get("back/chat_template.jinja"), jinja);
    EXPECT_EQ(get("back/additional_chat_templates/tool_use.jinja"), "tools");
    EXPECT_EQ(file_key("back/tokenizer_config.json", "chat_template"), "\"{{ bos_token }}\"");
    EXPECT_EQ(file_key("back/tokenizer_config.json", "eos_token"), "\"<|im_end|>\"");
    EXPECT_EQ(file_key("back/tokenizer_config.json", "pad_token"), "\"<|endoftext|>\"");
    EXPECT_EQ(file_key("back/tokenizer_config.json", "bos_token"), "null");
    for (const auto& [key, value] : {std::pair("temperature", "0.6"),
                                     {"top_p", "0.95"},
                                     {"do_sample", "true"},
                                     {"pad_token_id", "256"},
                                     {"eos_token_id", "[258,256]"}})
      EXPECT_EQ(file_key("back/generation_config.json", key), value) << key;
  }
}

TEST_F(Defects, B9_RecipesTrainInSmallAsDocumented) {
  const std::string recipes = TESSERA_SOURCE "/configs/recipes/";
  const std::string mine = " --small data.tokenizer=t.json data.train=[d] schedule.steps=1 ";
  const std::string hlat = good("train " + recipes + "hlat-7b.yaml" + mine);
  EXPECT_TRUE(
      has(hlat, "note: --small: the recipe's validation data data/validation do not exist"));
  // d is one document.
  const std::string pythia = good("train " + recipes + "pythia-14m.yaml" + mine);
  EXPECT_TRUE(has(pythia, "leaves no document for validation")) << pythia;
  fails("train " + recipes + "hlat-7b.yaml" + mine + "run.directory=v data.validation=[nowhere]",
        {"nowhere.idx"});
  fails("train run.yaml data.split=9,1,0",
        {"too few for validation", "this dataset has 1", "--split paragraphs"});
}

TEST_F(Defects, C_HelpAndUsageErrors) {
  EXPECT_EQ(run("help train").out, run("train --help").out);
  EXPECT_EQ(run("help data build").out, run("data build --help").out);
  EXPECT_TRUE(has(run("help").out, "Usage: tessera COMMAND"));
  fails("help trian", {"Did you mean 'tessera train'?"}, 2);
  fails("train run.yaml --batch.micro=4", {"without --: batch.micro=4"}, 2);
  fails("train run.yaml --batch.micro 4", {"without --: batch.micro=VALUE"}, 2);
  fails("generate run --prompt a --prompt b", {"--prompt is given 2 times, expected at most once"},
        2);
  fails("generate run --prompt", {"--prompt has no value"}, 2);
  const ProgramResult r = run("fine-tune run.yaml");
  EXPECT_EQ(r.code, 2);
  EXPECT_TRUE(has(r.err, "checkpoint.from") && !has(r.err, "tessera tune")) << r.err;
}

TEST_F(Defects, C_GenerateReadsStandardInputAndNothing) {
  good("train run.yaml");
  const std::string more = " --max-tokens 4 --temperature 0";
  EXPECT_EQ(run("generate run --prompt -" + more, "printf 'the quick' |").out,
            run("generate run --prompt 'the quick'" + more).out);
  good("generate run --prompt ''" + more);
  fails("generate run --prompt a --max-tokens 64", {"a prompt of 1 token and 64 new tokens"});
}

TEST_F(Defects, C_ARunDirectoryIsARun) {
  good("train run.yaml run.stop_after_steps=1");
  EXPECT_TRUE(has(good("train run run.stop_after_steps=2"), "resume    step 1 from"));
  good("compile run");
  std::filesystem::create_directories(folder_ / "empty");
  fails("train empty", {"empty: is a folder without run.yaml"});
  // A run that was moved trains where it is now.
  std::filesystem::rename(folder_ / "run", folder_ / "moved");
  good("train moved/ run.stop_after_steps=0 schedule.steps=3 checkpoint.allow_changes=true");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(Defects, C_ConfigPrintResolves) {
  put("open.yaml",
      "model: { layers: 1, hidden: 32, heads: 2, vocabulary: 0, context: 32 }\n"
      "data: { tokenizer: t.json, train: [d] }\nrun: { device: cpu }\n");
  const Tree t = json("config print open.yaml --json");
  EXPECT_EQ(number(*t.find("model"), "vocabulary"), 257);
  EXPECT_NE(to_json(*t.find("precision")), "\"auto\"");
  EXPECT_EQ(number(*t.find("layout"), "zero"), 0);
  // Device and precision are those that `train` writes.
  good("train run.yaml schedule.steps=1");
  for (const char* key : {"device: ", "precision: "}) {
    const std::string ran = get("run/run.yaml");
    const std::string line =
        ran.substr(ran.find(key), ran.find('\n', ran.find(key)) - ran.find(key));
    EXPECT_FALSE(has(line, "auto")) << line;
    EXPECT_TRUE(has(good("config print run.yaml"), line)) << line;
  }
  EXPECT_EQ(
      number(*json("config print open.yaml --json layout.data=2 batch.global=2").find("layout"),
             "zero"),
      1);
  EXPECT_TRUE(
      has(good("config print open.yaml data.tokenizer=none.json"), "note: model.vocabulary"));
}

TEST_F(Defects, C_TheBannerIsRight) {
  good("train run.yaml schedule.steps=1 run.directory=base");
  put("v.txt", "some other words\n");
  good("data build --tokenizer t.json --out validation v.txt");
  const std::string shown = good(
      "train run.yaml checkpoint.from=base data.validation=[validation] schedule.steps=9000 "
      "run.stop_after_steps=1");
  EXPECT_TRUE(has(shown, "\nweights   from base")) << shown;
  EXPECT_TRUE(has(shown, "step 1 validation loss ")) << shown;
  EXPECT_FALSE(has(shown, "validation validation"));
  EXPECT_FALSE(has(shown, "of an epoch")) << shown;
  EXPECT_TRUE(has(shown, "warning   the data is read")) << shown;
  put("other.yaml", "model: { preset: pythia-14m, vocabulary: 257, context: 64 }\n" +
                        get("run.yaml").substr(get("run.yaml").find("data:")));
  const ProgramResult r =
      run("train other.yaml checkpoint.from=base run.directory=x "
          "checkpoint.allow_changes=true");
  EXPECT_EQ(r.code, 1);
  EXPECT_FALSE(has(r.err, "model.preset")) << r.err;
}

TEST_F(Defects, C_NothingIsReplacedWithoutForce) {
  const std::string build = "data build --tokenizer t.json a.txt --out ";
  fails(build + "d", {"d.idx: exists already", "--force"});
  good(build + "d --force");
  const std::string learn = "tokenizer train --vocabulary 260 a.txt --out ";
  const std::string before = get("t.json");
  fails(learn + "t.json", {"t.json: exists already", "--force"});
  EXPECT_EQ(get("t.json"), before);
  good(learn + "t.json --force");
  EXPECT_NE(get("t.json"), before);
}

TEST_F(Defects, C_EvalTakesTheLengthOfTheRun) {
  good("train run.yaml");
  const std::string eval = "eval run d --samples 4 --json";
  EXPECT_EQ(run(eval).out, run(eval + " --sequence-length 32").out);
  EXPECT_NE(run(eval).out, run(eval + " --sequence-length 64").out);
}

TEST_F(Defects, EvalKeepsDocumentsApartAsTheRunDid) {
  good("data build --tokenizer t.json --split lines --out lines a.txt");
  for (const char* keys :
       {"run.directory=apart data.intra_document_masking=true", "run.directory=plain"}) {
    SCOPED_TRACE(keys);
    good(
        fmt::format("train run.yaml precision=fp32 data.train=[lines] data.validation=[lines] "
                    "metrics.validate_sequences=0 {}",
                    keys));
  }
  const auto validated = [&](const std::string& run) {
    double loss = 0;
    for (const Tree& t : parse_json_lines(get(run + "/metrics.jsonl"), "metrics"))
      if (const Tree* v = t.find("validation_loss")) loss = std::get<double>(v->value);
    return loss;
  };
  const auto evaluated = [&](const std::string& run) {
    const Tree t = json("eval " + run + " lines --json");
    return std::get<double>((*t.find("results")->as_list())[0].find("loss")->value);
  };
  EXPECT_NEAR(evaluated("apart"), validated("apart"), 1e-5);
  EXPECT_NEAR(evaluated("plain"), validated("plain"), 1e-5);
  EXPECT_GT(std::abs(validated("apart") - validated("plain")), 1e-3);
}

TEST_F(Defects, C_BadLinesAreSkippedIfAsked) {
  put("bad.jsonl",
      "{\"text\":\"one\"}\n{\"text\":null}\n{\"text\": oh}\n{\"other\":1}\n{\"text\":\"two\"}\n");
  const std::string build = "data build --tokenizer t.json --out s bad.jsonl ";
  fails(build, {"bad.jsonl:2:", "has the type null"});
  fails(build + "--skip-bad 2", {"bad.jsonl:4:", "bad line 3"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "s.idx"));
  const Tree t = json(build + "--skip-bad 3 --json");
  EXPECT_EQ(number(t, "documents"), 2);
  EXPECT_EQ(number(t, "bad_lines"), 3);
  EXPECT_TRUE(has(good(build + "--skip-bad 9 --force"), "3 skipped; the first: bad.jsonl:2:"));
}

TEST_F(Defects, C_ATaskIsNamed) {
  good("train run.yaml");
  put("sums.jsonl", "{\"q\":\"1+1\",\"a\":\"2\"}\n");
  put("sums.yaml",
      "kind: exact_match\ndata: sums.jsonl\nform: \"{q} {response}\"\nresponse: \"{a}\"\n"
      "answer: \"{a}\"\nmax_tokens: 64\n");
  fails("eval run --task sums.yaml", {"task sums: max_tokens = 64", "context of 64"});
}

TEST_F(Defects, C_ProposalsForLittleMemory) {
  const std::string keys =
      "train run.yaml model.family=llama model.rotary_pct=1 model.layers=16 model.hidden=512 "
      "model.heads=8 batch.global=64 batch.micro=1 precision=fp32 layout.recompute=full";
  const ProgramResult r = run(keys, "ulimit -d 800000;");
  EXPECT_EQ(r.code, 1);
  for (const char* part : {"precision=bf16_sr", "lora.rank=16", "layout.zero=3"})
    EXPECT_TRUE(has(r.err, part)) << part << "\n" << r.err;
}

}  // namespace
}  // namespace tessera::cli

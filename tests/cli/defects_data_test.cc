// Defects in what a run reads: its position in the data, data that changed, data of other
// tokenizers, and unbounded inputs.
#include <cmath>
#include <regex>

#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

constexpr const char* kRun =
    "model: { layers: 1, hidden: 32, heads: 2, vocabulary: 258, context: 32 }\n"
    "data: { tokenizer: t.json, train: [d], sequence_length: 32 }\n"
    "batch: { global: 4, micro: 2 }\n"
    "optimizer: { learning_rate: 1.0e-30 }\n"
    "schedule: { kind: constant, steps: 3 }\n"
    "precision: fp32\n"
    "run: { directory: run, seed: 1, threads: 1 }\n";

std::string replaced(const std::string& text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, text.npos) << what;
  return text.substr(0, at) + by + text.substr(at + what.size());
}

// The byte tokenizer with the ids of two tokens exchanged; as JSON names them: \u0061.
std::string exchanged(const std::string& one, int id_of_one, const std::string& other,
                      int id_of_other) {
  const auto entry = [](const std::string& token, int id) {
    return fmt::format("\"{}\":{}", token, id);
  };
  const std::string text =
      replaced(byte_tokenizer(), entry(one, id_of_one), entry(one, id_of_other));
  return replaced(text, entry(other, id_of_other), entry(other, id_of_one));
}

class Defects : public ProgramFolder {
 protected:
  Defects() { put("run.yaml", kRun); }

  // Trains several times, each with one entry of `starts`.
  void train(const std::vector<std::string>& starts, const std::string& directory = "run") const {
    for (const std::string& keys : starts) {
      const ProgramResult r = run("train run.yaml run.directory=" + directory + " " + keys);
      EXPECT_EQ(r.code, 0) << keys << "\n" << r.err;
    }
  }
  void expect_refused(const std::string& arguments, const std::vector<std::string>& parts) const {
    const ProgramResult r = run(arguments);
    EXPECT_EQ(r.code, 1) << arguments << "\n" << r.out << r.err;
    for (const std::string& part : parts)
      EXPECT_NE(r.err.find(part), std::string::npos) << arguments << "\n" << part << "\n" << r.err;
  }
  // The number `key` of each line of metrics.jsonl that is of a step.
  std::vector<double> metric(const std::string& directory, const std::string& key) const {
    std::vector<double> values;
    for (const Tree& line : parse_json_lines(get(directory + "/metrics.jsonl"), "metrics")) {
      const Tree* value = line.find(key);
      if (value == nullptr || line.find("loss") == nullptr) continue;
      const auto* n = std::get_if<int64_t>(&value->value);
      values.push_back(n ? static_cast<double>(*n) : std::get<double>(value->value));
    }
    return values;
  }
  // The samples that a step reads, as `data explain` lists them.
  std::vector<int64_t> samples_of(int step, const std::string& keys) const {
    const ProgramResult r =
        run(fmt::format("data explain run.yaml --step {} --json {}", step, keys));
    EXPECT_EQ(r.code, 0) << r.err;
    std::vector<int64_t> samples;
    const Tree tree = parse_json(r.out, "explain");
    for (const Tree& s : *tree.find("samples")->as_list())
      samples.push_back(std::get<int64_t>(s.find("sample")->value));
    return samples;
  }
};

// The weights do not move, so each step's loss is the mean of those of its samples: steps after
// any change of batch, ramp and layout read the samples that follow.
TEST_F(Defects, A2_F2_TheBatchMayChangeAtAnyResume) {
  train({"batch.global=1 batch.micro=1 schedule.steps=60"}, "each");
  const std::vector<double> each = metric("each", "loss");
  ASSERT_EQ(each.size(), 60u);
  const std::vector<std::string> starts = {
      "schedule.steps=3",
      "schedule.steps=5 batch.global=1 batch.micro=1",
      "schedule.steps=9 batch.global=6 batch.micro=3 batch.warmup_sizes=[3] "
      "batch.warmup_steps_per_size=7",
      "schedule.steps=11 batch.global=8 batch.micro=1",
  };
  train(starts);
  const std::vector<size_t> sizes = {4, 4, 4, 1, 1, 3, 3, 6, 6, 8, 8};
  const std::vector<double> losses = metric("run", "loss"), tokens = metric("run", "tokens");
  ASSERT_EQ(losses.size(), sizes.size());
  size_t sample = 0;
  for (size_t step = 0; step < sizes.size(); ++step) {
    double sum = 0;
    for (size_t i = 0; i < sizes[step]; ++i) sum += each[sample++];
    EXPECT_NEAR(losses[step], sum / static_cast<double>(sizes[step]), 1e-5) << "step " << step + 1;
    EXPECT_EQ(tokens[step], static_cast<double>(sample * 32));
  }
  const std::string last = "schedule.steps=12 batch.global=8 batch.micro=1";
  EXPECT_EQ(samples_of(12, last), (std::vector<int64_t>{48, 49, 50, 51, 52, 53, 54, 55}));
  EXPECT_EQ(samples_of(5, last), (std::vector<int64_t>{13}));
  EXPECT_EQ(samples_of(6, last), (std::vector<int64_t>{14, 15, 16}));
  EXPECT_EQ(samples_of(12, "schedule.steps=12 batch.global=2 batch.micro=1"),
            (std::vector<int64_t>{48, 49}));
}

TEST_F(Defects, A2_LoadAllTakesThePlaceInTheData) {
  train({""});
  train({"schedule.steps=4 checkpoint.from=run checkpoint.load=all batch.global=2"}, "other");
  train({"batch.global=1 batch.micro=1 schedule.steps=14"}, "each");
  const std::vector<double> each = metric("each", "loss"), other = metric("other", "loss");
  ASSERT_EQ(other.size(), 1u);
  EXPECT_NEAR(other[0], (each[12] + each[13]) / 2, 1e-5);
  train({"schedule.steps=1 checkpoint.from=run batch.global=2"}, "fresh");
  EXPECT_NEAR(metric("fresh", "loss").at(0), (each[0] + each[1]) / 2, 1e-5);
}

TEST_F(Defects, A2_KeptTokensFollowTheConsumedSamples) {
  // 128 tokens per step up to step 3, then 32: token 500 is in step 7.
  const std::string keep =
      " checkpoint.every_steps=0 checkpoint.keep=1 checkpoint.keep_every_tokens=500";
  // A run keeps the checkpoint that it started from, so step 3 is removed by the third start.
  train({"schedule.steps=3" + keep, "schedule.steps=9 batch.global=1 batch.micro=1" + keep,
         "schedule.steps=10 batch.global=1 batch.micro=1" + keep});
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/checkpoints/7"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/checkpoints/3"));
}

TEST_F(Defects, M13_ARebuiltDataSetIsNoticed) {
  train({""});
  const std::string text = get("a.txt");
  put("a.txt", text.substr(0, text.size() / 2));
  ASSERT_EQ(run("data build --force --tokenizer t.json --out d a.txt").code, 0);
  expect_refused("train run.yaml schedule.steps=4",
                 {"d: the checkpoint was trained on other data", fmt::format("{}", text.size() + 1),
                  "checkpoint.allow_changes=true"});
  train({"schedule.steps=4 checkpoint.allow_changes=true"});
  put("a.txt", text);
  ASSERT_EQ(run("data build --force --tokenizer t.json --out d a.txt").code, 0);
  expect_refused("train run.yaml schedule.steps=5",
                 {"d: the checkpoint was trained on other data"});
}

TEST_F(Defects, M13_ARebuiltTokenizerIsNoticed) {
  train({""});
  put("t.json", exchanged("\\u0061", 97, "\\u0062", 98));
  expect_refused("train run.yaml schedule.steps=4 data.allow_foreign_tokenizer=true",
                 {"data.tokenizer: t.json", "run/checkpoints/3", "allow_changes=true"});
}

// The run ends with an Error that names the file, however the file is truncated or replaced.
TEST_F(Defects, M9_ADataFileCutWhileTraining) {
  for (const char* damage : {"truncate -s 1000 d.bin", "truncate -s 0 d.idx; truncate -s 10 d.bin",
                             "head -c 5000 a.txt >d.bin"}) {
    ASSERT_EQ(run("data build --force --tokenizer t.json --out d a.txt").code, 0);
    std::filesystem::remove_all(folder_ / "run");
    const ProgramResult r = run(fmt::format(
        "train run.yaml schedule.steps=1000000 metrics.every_steps=1000 & pid=$!; "
        "for i in $(seq 100); do grep -q 'first step' run/log.txt && break; sleep 0.1; done; {}; "
        "wait $pid; code=$?; exit $code",
        damage));
    EXPECT_EQ(r.code, 1) << damage << "\n" << r.err;
    EXPECT_NE(get("run/log.txt").find("d.bin"), std::string::npos) << damage << get("run/log.txt");
  }
}

TEST_F(Defects, B4_DataOfAnotherTokenizerIsRefused) {
  put("u.json", exchanged("\\u0061", 97, "\\u0062", 98));
  const std::vector<std::string> both = {"d was built with t.json (", "is read with u.json (",
                                         "data.allow_foreign_tokenizer=true"};
  expect_refused("train run.yaml data.tokenizer=u.json", both);
  ASSERT_EQ(run("data build --tokenizer u.json --out other a.txt").code, 0);
  expect_refused("train run.yaml data.tokenizer=u.json data.train=[other] data.validation=[d]",
                 both);
  train({"data.tokenizer=u.json data.allow_foreign_tokenizer=true"});
  train({""}, "mine");
  expect_refused("train run.yaml data.tokenizer=u.json checkpoint.from=mine run.directory=tuned",
                 both);
  EXPECT_EQ(run("eval mine d").code, 0);
  expect_refused("eval mine other", {"other was built with u.json", "--allow-foreign-tokenizer"});
  EXPECT_EQ(run("eval mine other --allow-foreign-tokenizer").code, 0);
}

TEST_F(Defects, B4_TheSameTokensInAnotherFilePass) {
  put("spaces.json", byte_tokenizer() + "\n");
  train({"data.tokenizer=spaces.json"}, "spaces");
  put("more.json",
      replaced(byte_tokenizer(), "\"special\":true}]",
               "\"special\":true},{\"id\":257,\"content\":\"<|more|>\",\"single_word\":"
               "false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
               "\"special\":true}]"));
  train({"data.tokenizer=more.json"}, "more");
}

TEST_F(Defects, F7_AnEncoderNeedsATokenForPadding) {
  put("gpt2.json", exchanged("\\u0100", 0, "\\u0021", 33));
  put("pairs.jsonl", "{\"prompt\":\"what!\",\"response\":\"this\"}\n");
  const std::string keys =
      "model.family=t5 model.encoder_layers=1 data.train=[] data.instructions=[pairs.jsonl] "
      "data.template={prompt}{response} data.target_length=8 batch.global=1 batch.micro=1 ";
  expect_refused("train run.yaml data.tokenizer=gpt2.json " + keys,
                 {"gpt2.json: token 0 is the text '!'", "padding"});
  train({keys});  // id 0 is the byte 0, which no text has
}

TEST_F(Defects, L8_ABombOfOneWordIsRefused) {
  const std::string limited = "ulimit -v 3000000; ";
  ASSERT_EQ(
      run("--version", "head -c 300000000 /dev/zero | tr '\\0' x | gzip -1 >words.txt.gz;").code,
      0);
  const ProgramResult r = run("data build --tokenizer t.json --out z words.txt.gz", limited);
  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_NE(r.err.find("words.txt.gz:1: 67108864 bytes"), std::string::npos) << r.err;
  const ProgramResult lines =
      run("data build --tokenizer t.json --split lines --out z words.txt.gz", limited);
  EXPECT_NE(lines.err.find("words.txt.gz:1:1: this line is longer"), std::string::npos)
      << lines.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "z.bin"));
}

TEST_F(Defects, L9_ARampIsBounded) {
  const std::string limited = "ulimit -v 3000000; timeout 20";
  for (const char* ramp : {"[4000000000000]", "[40000000]", "[6000000,6000000]"}) {
    const ProgramResult r =
        run(fmt::format("train run.yaml batch.warmup_steps_per_size=1 batch.warmup_sizes={}", ramp),
            limited);
    EXPECT_EQ(r.code, 1) << ramp << r.err;
    EXPECT_NE(r.err.find("batch.warmup_sizes has"), std::string::npos) << ramp << r.err;
  }
  std::string many = "4";
  for (int i = 0; i < 64; ++i) many += ",4";
  EXPECT_NE(run("train run.yaml batch.warmup_steps_per_size=1 batch.warmup_sizes=[" + many + "]")
                .err.find("at most 64"),
            std::string::npos);
  EXPECT_EQ(
      run("train run.yaml batch.warmup_steps_per_size=1000000000000000000 batch.warmup_sizes=[8]")
          .code,
      1);
}

}  // namespace
}  // namespace tessera::cli

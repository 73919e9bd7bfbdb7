// What faults of the world make of train, generate and eval: every one must give its exit code,
// name its place, say what was found and wanted and what to do, and leave every file as it was. And
// a run that is told to stop saves, leaves, and goes on bit for bit.
#include <cmath>

#include "base/text_template.h"
#include "base/wire_message.h"
#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

constexpr const char* kRun =
    "model: { layers: 2, hidden: 64, heads: 4, vocabulary: 257, context: 64 }\n"
    "data: { tokenizer: t.json, train: [d], sequence_length: 64 }\n"
    "batch: { global: 4, micro: 2 }\n"
    "schedule: { steps: 4 }\n"
    "run: { directory: run, seed: 1, threads: 1 }\n";

class TrainProgram : public ProgramFolder {
 protected:
  TrainProgram() { put("run.yaml", kRun); }

  enum class LogMayAppear : uint8_t { kNo, kYes };

  void expect_fault(const std::string& arguments, const std::vector<std::string>& parts,
                    int code = 1, LogMayAppear log = LogMayAppear::kNo) const {
    const Files files = snapshot();
    const ProgramResult r = run(arguments);
    expect_message(arguments, r, parts, code);
    Files after = snapshot();
    if (log == LogMayAppear::kYes)
      std::erase_if(after, [](const auto& f) { return f.second == "a log"; });
    EXPECT_TRUE(after == files) << arguments << " changed a file";
  }
  static void expect_message(const std::string& arguments, const ProgramResult& r,
                             const std::vector<std::string>& parts, int code = 1) {
    EXPECT_EQ(r.code, code) << arguments << "\n" << r.err;
    EXPECT_NE(r.err.find("tessera: "), std::string::npos) << r.err;
    for (const std::string& part : parts)
      EXPECT_NE(r.err.find(part), std::string::npos)
          << arguments << "\nwanted: " << part << "\nin: " << r.err;
  }
};

TEST_F(TrainProgram, FaultsOfTheRunFile) {
  expect_fault("train run.yaml model.heads=5",
               {"command line", "model.heads = 5", "does not divide hidden = 64", "Possible here"});
  expect_fault("train run.yaml batch.micro=3",
               {"batch.micro = 3", "does not divide batch.global = 4", "Possible here: 1, 2, 4"});
  expect_fault("train none.yaml", {"none.yaml", "cannot be opened"});
  expect_fault("train run.yaml modle.layers=3", {"command line", "modle", "model"});
}

TEST_F(TrainProgram, AMissingCheckpointIsReportedBeforeMemoryIsTaken) {
  const ProgramResult r = run("train run.yaml checkpoint.from=nowhere");
  expect_message("train", r, {"nowhere: there is no such checkpoint"});
  EXPECT_EQ(r.out.find("memory "), std::string::npos) << r.out;
}

TEST_F(TrainProgram, FaultsOfTheData) {
  expect_fault("train run.yaml data.train=[nowhere]",
               {"nowhere.idx", "No such file", "tessera data build"});
  expect_fault("train run.yaml model.vocabulary=0 data.tokenizer=none.json",
               {"data.tokenizer = none.json", "not found in"});
  put("bad.json", "{\"x");
  expect_fault("train run.yaml model.vocabulary=0 data.tokenizer=bad.json",
               {"bad.json:", "not JSON", "expected string literal"});
}

// A folder of Hugging Face, imported or not, that is trained on and exported again says of texts
// what it said: what stands before and behind them.
TEST_F(TrainProgram, WhatStandsAroundTextsGoesThroughTraining) {
  for (const char* kind : {"bpe", "unigram"}) {
    for (const char* made :
         {"p.model", "p.bin", "p.idx", "p.json", "run", "hf", "i.checkpoint", "back", "again"})
      std::filesystem::remove_all(folder_ / made);
    const auto done = [&](const std::string& arguments) {
      const ProgramResult r = run(arguments);
      ASSERT_EQ(r.code, 0) << arguments << "\n" << r.err;
    };
    done(fmt::format("tokenizer train --kind {} --vocabulary 300 --out p.model a.txt", kind));
    done("data build --tokenizer p.model --out p a.txt");
    const std::string train =
        "train run.yaml model.family=llama model.rotary_pct=1 model.vocabulary=0 "
        "data.tokenizer=p.model data.train=[p] schedule.steps=1 ";
    done(train);
    done("checkpoint export run --to hf");
    Tree config = parse_json(get("hf/config.json"), "config.json");
    config.set("bos_token_id", Tree(int64_t{1}));
    put("hf/config.json", to_json(config));
    std::filesystem::remove(folder_ / "hf/tokenizer.json");
    const auto said = [&](const std::string& folder) {
      const Tree t = parse_json(get(folder + "/tokenizer_config.json"), "tokenizer_config.json");
      return to_json(*t.find("add_bos_token")) + " " + to_json(*t.find("add_eos_token"));
    };
    EXPECT_EQ(said("hf"), "false false");
    for (const auto& [begins, ends] : {std::pair(true, true), {true, false}, {false, true}}) {
      SCOPED_TRACE(fmt::format("{} {} {}", kind, begins, ends));
      put("hf/tokenizer_config.json",
          fmt::format(R"({{"add_bos_token": {}, "add_eos_token": {}}})", begins, ends));
      for (const char* from : {"i.checkpoint", "hf"}) {
        for (const char* old : {"i.checkpoint", "run", "back"})
          std::filesystem::remove_all(folder_ / old);
        done("checkpoint import --from hf --out i.checkpoint");
        done(train + "run.stop_after_steps=1 schedule.steps=2 checkpoint.from=" + from);
        done(train + "schedule.steps=2 checkpoint.from=" + from);  // goes on from its own
        done("checkpoint export run --to back");
        EXPECT_EQ(said("back"), fmt::format("{} {}", begins, ends)) << from;
        if (std::string(kind) == "bpe") continue;  // which is read by its model alone
        const TextTemplate around =
            read_text_template(parse_json(get("back/tokenizer.json"), "tokenizer.json"));
        EXPECT_EQ(around.begin, "") << from;  // a model learned here has no such piece
        EXPECT_EQ(around.end, ends ? "</s>" : "") << from;
      }
    }
  }
}

// Where a start made the folder and is refused, nothing of it stays, also of the folders above it;
// what stood there before stays, and the log of a run that had begun says why it ended.
TEST_F(TrainProgram, ARefusedStartLeavesNoTrace) {
  const std::string nowhere = "train run.yaml data.train=[nowhere] run.directory=";
  for (const char* folder : {"a/b/c", "a/b/c/", "./a"})
    expect_fault(nowhere + folder, {"nowhere.idx"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a"));
  std::filesystem::create_directories(folder_ / "a" / "b");
  put("a/b/mine.txt", "keep");
  expect_fault(nowhere + "a/b", {"nowhere.idx"}, 1, LogMayAppear::kYes);
  EXPECT_EQ(get("a/b/mine.txt"), "keep");
  EXPECT_NE(get("a/b/log.txt").find("error: nowhere.idx"), std::string::npos) << get("a/b/log.txt");

  ASSERT_EQ(run("train run.yaml run.stop_after_steps=2").code, 0);
  const std::string log = get("run/log.txt");
  expect_fault("train run.yaml run.seed=2", {"holds checkpoints of another run", "run.seed"});
  const std::string longer = get("run/log.txt");
  EXPECT_TRUE(longer.starts_with(log));
  EXPECT_NE(longer.find("error: run holds checkpoints of another run"), std::string::npos);
}

TEST_F(TrainProgram, NumbersThatCannotBe) {
  ASSERT_EQ(run("train run.yaml schedule.steps=1").code, 0);
  expect_fault("eval run d --sequence-length 65",
               {"--sequence-length is 65", "model's context of 64"});
  expect_fault("eval run d --sequence-length -3", {"is -3, expected 0 or more"}, 2);
  expect_fault("eval run d --samples -1", {"--samples is -1, expected 0 or more"}, 2);
  expect_fault("eval run d --threads 100000", {"--threads is 100000, expected 0", "to 1024"}, 2);
  expect_fault("eval run d --examples e.jsonl", {"--examples requires --task"}, 2);
  expect_fault("eval run --logits l.safetensors", {"--logits FILE and --tokens FILE"}, 2);
  put("ids.json", "[[1, 2], [3, 2.5]]");
  const std::string logits = "eval run --logits l.safetensors --tokens ids.json";
  expect_fault(logits, {"ids.json:1:14: found 2.5, expected a token id"});
  std::string row = "1";
  for (int i = 1; i < 65; ++i) row += ",1";
  put("ids.json", "[[" + row + "]]");
  expect_fault(logits, {"rows of 65 tokens are longer than the model's context of 64"});
  put("ids.json", "[[1, 2]]");
  put("l.safetensors", "mine");
  expect_fault(logits, {"l.safetensors", "--force"});
  expect_fault("eval run --logits ids.json --tokens ids.json", {"ids.json", "--force"});
  EXPECT_EQ(get("l.safetensors"), "mine");
  EXPECT_EQ(run(logits + " --force").code, 0);
  const std::string write = "generate run --prompt a --max-tokens ";
  expect_fault(write + "-3", {"max_tokens = -3, expected 0 or more"});
  expect_fault(write + "64", {"Shorten the prompt or ask for at most 63 tokens"});
  expect_fault(write + "3 --threads -1", {"--threads is -1"}, 2);
  EXPECT_EQ(run(write + "3 --top-p 2").out, "");
  expect_fault("train run.yaml run.threads=100000",
               {"run.threads = 100000, expected a value in [0, 1024]"});
  expect_fault("train run.yaml batch.global=9000000", {"batch.micro = 2 makes 4500000 micro"});
}

TEST_F(TrainProgram, PlacesThatCannotBeWritten) {
  put("text", "some text");
  expect_fault("train run.yaml run.directory=text/r",
               {"run.directory = text/r", "Not a directory", "Choose another path"});
  const std::string learn = "tokenizer train --vocabulary 260 text --out ";
  expect_fault(learn + "text", {"text: is an input, but the output text would replace it"});
  expect_fault(learn + "text/t.json", {"text/t.json: cannot be created, since", "text is a file"});
  expect_fault(learn + ".", {"is a folder, expected a file"});
  EXPECT_EQ(run(learn + "new/folder/t.json").code, 0);
}

// What loads without a fault though the model computes something else.
TEST_F(TrainProgram, AnotherBaseModelIsToldWhereItIsAllowed) {
  ASSERT_EQ(run("train run.yaml schedule.steps=1 run.directory=base").code, 0);
  const ProgramResult r =
      run("train run.yaml checkpoint.from=base checkpoint.load=weights model.rope_theta=500000 "
          "model.layers=1 checkpoint.allow_changes=true");
  EXPECT_EQ(r.code, 0) << r.err;
  for (const char* told : {"model.rope_theta: 10000.0 → 500000.0", "model.layers: 2 → 1"})
    EXPECT_NE(r.out.find(told), std::string::npos) << r.out;
}

TEST_F(TrainProgram, TokenIdsBeyondTheVocabulary) {
  const Files data = snapshot();
  const std::string line = "train run.yaml model.vocabulary=100";
  expect_message(line, run(line),
                 {"d.bin: token", "outside the vocabulary of 100", "Build it again, or set"});
  for (const auto& [name, bytes] : data) EXPECT_EQ(read_file(name), bytes) << name;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/checkpoints"));
}

TEST_F(TrainProgram, AnotherModelOrSeed) {
  ASSERT_EQ(run("train run.yaml schedule.steps=2").code, 0);
  expect_fault("train run.yaml run.seed=2",
               {"run holds checkpoints of another run", "run.seed was 1, is now 2",
                "checkpoint.allow_changes=true"});
  expect_fault("train run.yaml checkpoint.from=run model.layers=3 run.directory=other",
               {"run/checkpoints/2", "model.layers is 2 there, 3 in this run",
                "set the keys as they are there"});
  expect_fault("train run.yaml checkpoint.from=run model.hidden=128 run.directory=other",
               {"run/checkpoints/2", "model.hidden is 64 there, 128 in this run",
                "set the keys as they are there"});
  expect_fault("train run.yaml checkpoint.from=nowhere run.directory=other",
               {"nowhere: there is no such checkpoint"});
  const ProgramResult r = run("train run.yaml run.seed=2 checkpoint.allow_changes=true");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("run.seed: 1 → 2"), std::string::npos) << r.out;
}

TEST_F(TrainProgram, FaultsOfGenerateAndEval) {
  ASSERT_EQ(run("train run.yaml schedule.steps=1").code, 0);
  expect_fault("generate nowhere --prompt x", {"nowhere: there is no such checkpoint"});
  expect_fault("generate run --max-tokens 20 --prompt " + std::string(60, 'x'),
               {"prompt of 60 tokens and 20 new tokens", "context of 64", "at most 4 tokens"});
  expect_fault("eval run nowhere", {"nowhere.idx", "No such file", "tessera data build"});
  expect_fault("eval run", {"nothing to do", "PREFIX of a dataset"}, 2);
  std::string pieces = get("run/checkpoints/1/pieces-0.bin");
  pieces.resize(pieces.size() / 2);
  put("run/checkpoints/1/pieces-0.bin", pieces);
  expect_fault("generate run/checkpoints/1 --prompt x", {"pieces-0.bin"});
}

// The loss that eval prints.
double loss_of(const ProgramResult& r) {
  EXPECT_EQ(r.code, 0) << r.err;
  const Tree results = *parse_json(r.out, "eval").find("results");
  return *number_in(*(*results.as_list())[0].find("loss"));
}

TEST_F(TrainProgram, MeansOfWeightsAreChosenByReaders) {
  // An export drops the padding of the vocabulary, which this early takes part in the softmax.
  ASSERT_EQ(run("train run.yaml optimizer.ema=0.5 optimizer.learning_rate=0.01 "
                "model.vocabulary_multiple=1")
                .code,
            0);
  const double trained = loss_of(run("eval run d --json"));
  EXPECT_EQ(loss_of(run("eval run d --json --weights trained")), trained);
  const double mean = loss_of(run("eval run d --json --weights ema"));
  EXPECT_GT(std::abs(mean - trained), 1e-4);
  ASSERT_EQ(run("checkpoint export run --to hf --weights ema").code, 0);
  EXPECT_NEAR(loss_of(run("eval hf d --json --sequence-length 64")), mean, 1e-6 * mean);
  EXPECT_EQ(run("generate run --prompt fox --max-tokens 2 --weights ema").code, 0);
  expect_fault("eval run d --weights mean", {"--weights is 'mean', expected trained or ema"}, 2);
  ASSERT_EQ(run("train run.yaml run.directory=plain").code, 0);
  expect_fault("eval plain d --weights ema",
               {"plain/checkpoints/4", "trained without optimizer.ema", "--weights trained"});
  expect_fault("checkpoint export plain --to other --weights ema", {"without optimizer.ema"});
}

// Without other keys the schedule is constant; its weights are the average, which validation and
// eval read.
TEST_F(TrainProgram, AScheduleFreeRunIsEvaluatedAtItsAverage) {
  const std::string line =
      "train run.yaml precision=fp32 optimizer.kind=schedule_free optimizer.learning_rate=0.01 "
      "data.validation=[d] metrics.validate_every_steps=2";
  ASSERT_EQ(run(line).code, 0);
  double validated = 0;
  for (const Tree& t : parse_json_lines(get("run/metrics.jsonl"), "metrics"))
    if (const Tree* loss = t.find("validation_loss")) validated = *number_in(*loss);
  EXPECT_NEAR(loss_of(run("eval run d --json")), validated, 1e-6 * validated);
  const auto whole = get("run/checkpoints/4/pieces-0.bin");
  ASSERT_EQ(run(line + " run.directory=half run.stop_after_steps=3").code, 0);
  ASSERT_EQ(run(line + " run.directory=half").code, 0);
  EXPECT_TRUE(get("half/checkpoints/4/pieces-0.bin") == whole);
  expect_fault("train run.yaml run.directory=no optimizer.kind=schedule_free schedule.kind=cosine",
               {"schedule.kind", "= cosine, but optimizer.kind is schedule_free",
                "Set schedule.kind=constant"});
  expect_fault("train run.yaml run.directory=no optimizer.kind=schedule_free optimizer.ema=0.9",
               {"optimizer.ema", "an average of the weights already", "Set optimizer.ema=0"});
}

constexpr const char* kTask =
    "kind: choice\ndata: e.jsonl\nform: \"{query} {response}\"\nresponse: \"{choices}\"\n"
    "gold: gold\n";
constexpr const char* kExamples =
    "{\"query\": \"the quick\", \"choices\": [\"brown\", \"qqqqq\"], \"gold\": 0}\n"
    "{\"query\": \"fox 7\", \"choices\": [\"zzzzz\", \"jumps\"], \"gold\": 1}\n"
    "{\"query\": \"jumps\", \"choices\": [\"again\", \"the\"], \"gold\": 0}\n";

// The lines of metrics.jsonl that tell of the task.
std::vector<std::string> task_lines(const std::string& metrics) {
  std::vector<std::string> lines;
  for (size_t at = 0, end; (end = metrics.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = metrics.substr(at, end - at);
    if (line.find("\"task\"") != std::string::npos) lines.push_back(line);
  }
  return lines;
}

// A number of such a line as an event file has it under `tag`.
std::string scalar(const std::string& tag, const std::string& line, const char* key) {
  std::string bytes;
  append_wire_bytes(bytes, 1, tag);
  append_wire_float(
      bytes, 2, static_cast<float>(std::get<double>(parse_json(line, "line").find(key)->value)));
  return bytes;
}

TEST_F(TrainProgram, TasksAreEvaluatedOnTheWay) {
  put("words.yaml", kTask);
  put("e.jsonl", kExamples);
  const std::string tasks =
      " precision=fp32 evaluation.tasks=[words.yaml] evaluation.every_steps=2";
  ASSERT_EQ(run("train run.yaml" + tasks).code, 0);
  const std::vector<std::string> lines = task_lines(get("run/metrics.jsonl"));
  ASSERT_EQ(lines.size(), 2u);  // after steps 2 and 4
  EXPECT_EQ(lines[0].find("{\"step\":2,\"task\":\"words\",\"examples\":3,\"accuracy\":"), 0u)
      << lines[0];
  const ProgramResult r = run("eval run/checkpoints/4 --task words.yaml --json");
  ASSERT_EQ(r.code, 0) << r.err;
  const Tree line = parse_json(lines[1], "line"), said = parse_json(r.out, "eval");
  const Tree* metrics = (*said.find("results")->as_list())[0].find("metrics");
  for (const char* name : {"accuracy", "accuracy_length"})
    EXPECT_EQ(to_json(*line.find(name)), to_json(*metrics->find(name)->find("value")));
  std::string events;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "run/tensorboard"))
    events += read_file(entry.path());
  for (const std::string& said_of_step : lines)
    EXPECT_NE(events.find(scalar("task/words/accuracy", said_of_step, "accuracy")),
              std::string::npos)
        << said_of_step;
  const std::string kept = "eval run/checkpoints/4 --task words.yaml --examples scores.jsonl";
  EXPECT_EQ(run(kept).code, 0);
  expect_fault(kept, {"scores.jsonl: exists already", "--force"});
  EXPECT_EQ(run(kept + " --force").code, 0);
  expect_fault("eval run/checkpoints/4 --task words.yaml --examples none/scores.jsonl",
               {"none/scores.jsonl: there is no folder", "Create it first"});
  expect_fault("eval run/checkpoints/4 --task words.yaml --examples /dev/full --force",
               {"/dev/full: is a device or a pipe, expected a file"});
  expect_fault("train run.yaml evaluation.every_steps=2 run.directory=o",
               {"evaluation.every_steps = 2", "evaluation.tasks names no task file"});
  expect_fault("train run.yaml evaluation.tasks=[none.yaml] run.directory=o", {"none.yaml"});
  ASSERT_EQ(run("train run.yaml run.directory=two layout.data=2" + tasks,
                "mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2")
                .code,
            0);
  const std::vector<std::string> two = task_lines(get("two/metrics.jsonl"));
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].substr(0, 50), lines[0].substr(0, 50));
}

// Each rank reads its part of the folder itself. An export has no padding of the vocabulary, whose
// rows take part in the softmax, so the model has none either.
TEST_F(TrainProgram, StartsFromAHuggingFaceFolder) {
  const std::string train = "train run.yaml model.vocabulary_multiple=1 ";
  ASSERT_EQ(run(train + "schedule.steps=2 run.directory=base").code, 0);
  ASSERT_EQ(run("checkpoint export base --to hf").code, 0);
  const std::string two = "mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2";
  const auto losses = [&](const std::string& from, const std::string& directory) {
    const ProgramResult r = run(
        train + fmt::format("layout.tensor=2 checkpoint.from={} run.directory={}", from, directory),
        two);
    EXPECT_EQ(r.code, 0) << r.err;
    std::vector<std::string> out;
    const std::string text = get(directory + "/metrics.jsonl");
    for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
      if (const Tree* loss = parse_json(text.substr(at, end - at), "line").find("loss"))
        out.push_back(to_json(*loss));
    return out;
  };
  const std::vector<std::string> one = losses("base", "a"), other = losses("hf", "b");
  EXPECT_EQ(one.size(), 4u);
  EXPECT_EQ(one, other);
  EXPECT_EQ(run("generate hf --prompt the --max-tokens 4").code, 0);
}

TEST_F(TrainProgram, FullDiskLeavesThePreviousCheckpointWhole) {
  ASSERT_EQ(run("train run.yaml run.stop_after_steps=2").code, 0);
  const Files before = snapshot("run/checkpoints/2");
  const std::string line = "train run.yaml";
  expect_message(line, run(line, "ulimit -f 100;"), {"run/checkpoints/4", "too large"});
  EXPECT_TRUE(snapshot("run/checkpoints/2") == before);
  EXPECT_EQ(run("checkpoint verify run/checkpoints/2").code, 0);
  EXPECT_EQ(run(line).code, 0);
}

TEST_F(TrainProgram, NumbersThatAreNotFinite) {
  const std::string line =
      "train run.yaml optimizer.learning_rate=1e30 schedule.warmup_steps=0 schedule.steps=20 "
      "checkpoint.every_steps=1";
  expect_message(line, run(line),
                 {"after step 1", "layer 0, forward, micro-batch 0", "(matmul)",
                  "There is no good checkpoint.", "a lower learning rate"},
                 3);
}

// Losses of metrics.jsonl, as text: other numbers are times.
std::vector<std::string> losses(const std::string& metrics) {
  std::vector<std::string> out;
  for (size_t at = 0; (at = metrics.find("\"loss\":", at)) != std::string::npos; ++at)
    out.push_back(metrics.substr(at, metrics.find(',', at) - at));
  return out;
}

TEST_F(TrainProgram, ASignalSavesAndTheRunGoesOnBitForBit) {
  const std::string steps = " schedule.steps=60 metrics.every_steps=1";
  ASSERT_EQ(run("train run.yaml run.directory=whole" + steps).code, 0);
  const std::string stopped = fmt::format(
      "cd {0}; {1} train run.yaml{2} >out.txt 2>&1 & pid=$!; cd {0}; until grep -q loss "
      "run/metrics.jsonl 2>/dev/null; do sleep 0.01; done; kill -TERM $pid; wait $pid",
      folder_.string(), TESSERA_PROGRAM, steps);
  EXPECT_EQ(std::system(stopped.c_str()), 0) << get("out.txt");
  EXPECT_NE(get("out.txt").find("stopped by a signal"), std::string::npos) << get("out.txt");
  EXPECT_LT(losses(get("run/metrics.jsonl")).size(), 60u);
  ASSERT_EQ(run("train run.yaml" + steps).code, 0);
  const auto whole = losses(get("whole/metrics.jsonl"));
  EXPECT_EQ(whole.size(), 60u);
  EXPECT_EQ(losses(get("run/metrics.jsonl")), whole);
  EXPECT_TRUE(get("run/checkpoints/60/pieces-0.bin") == get("whole/checkpoints/60/pieces-0.bin"));
}

TEST_F(TrainProgram, ATimeLimitSavesAndTheRunGoesOn) {
  const std::string line = "train run.yaml schedule.steps=1000000 checkpoint.every_steps=0";
  const ProgramResult r = run(line + " run.time_limit=1s --json");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("stopped by run.time_limit; run the same command to resume"),
            std::string::npos)
      << r.err;
  const Tree outcome = parse_json(r.out, "out");
  EXPECT_TRUE(std::get<bool>(outcome.find("interrupted")->value));
  const int64_t step = std::get<int64_t>(outcome.find("step")->value);
  EXPECT_TRUE(std::filesystem::exists(folder_ / fmt::format("run/checkpoints/{}", step)));
  // Even a limit that is over at the start allows a step.
  const ProgramResult again = run(line + " run.time_limit=0.001s --json");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(std::get<int64_t>(parse_json(again.out, "out").find("step")->value), step + 1);
}

// A learning rate of nearly zero leaves the loss as it is, so no validation after the first has a
// smaller one.
TEST_F(TrainProgram, ARunWhoseValidationLossNoLongerFallsStops) {
  const std::string line =
      "train run.yaml 'data.validation=[{name: held, prefix: d}]' schedule.steps=100 "
      "optimizer.learning_rate=1e-30 metrics.validate_sequences=4 metrics.validate_every_steps=2 "
      "checkpoint.every_steps=0 schedule.stop.patience=3 --json ";
  const auto step_of = [](const ProgramResult& r) {
    return std::get<int64_t>(parse_json(r.out, "out").find("step")->value);
  };
  const ProgramResult part = run("train run.yaml run.directory=never schedule.stop.patience=3");
  EXPECT_EQ(part.code, 1);
  EXPECT_NE(part.err.find("schedule.stop.metric = '', expected a dataset of data.validation. It "
                          "names none."),
            std::string::npos)
      << part.err;
  // Stopped before, the run counts the validations of its earlier start: those of steps 2, 4 and 5.
  ASSERT_EQ(run(line + "run.stop_after_steps=5").code, 0);
  const ProgramResult r = run(line);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("stopped by schedule.stop: the loss on held was smallest at step 2 ("),
            std::string::npos)
      << r.err;
  EXPECT_EQ(step_of(r), 6) << r.err;
  EXPECT_TRUE(std::get<bool>(parse_json(r.out, "out").find("stopped_early")->value));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/checkpoints/6"));
  const std::string metrics = get("run/metrics.jsonl");
  EXPECT_EQ(step_of(run(line)), 6);  // the same command finds nothing to do
  EXPECT_EQ(get("run/metrics.jsonl"), metrics);
  EXPECT_EQ(step_of(run(line + "schedule.stop.patience=4 ")), 8);
  EXPECT_EQ(run("watch run").code, 0);  // ends, because the run is done
}

// The second start has consumed 4 steps of 4 sequences, and reads the others in steps of 8.
TEST_F(TrainProgram, TokensOfTheScheduleCountThoseThatWereConsumed) {
  const std::string line = "train run.yaml schedule.tokens=2560 run.stop_after_steps=";  // 40 rows
  std::string run_file = kRun;
  run_file.replace(run_file.find("steps: 4"), 8, "kind: constant");
  put("run.yaml", run_file);
  const ProgramResult first = run(line + "4");
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.out.find("schedule  2,560 tokens: 10 steps"), std::string::npos) << first.out;
  const ProgramResult second = run(line + "0 batch.global=8");
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_NE(second.out.find("schedule  2,560 tokens: 7 steps"), std::string::npos) << second.out;
  EXPECT_EQ(losses(get("run/metrics.jsonl")).size(), 7u);
}

}  // namespace
}  // namespace tessera::cli

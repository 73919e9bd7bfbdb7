// A preference for short answers is learned from a file of pairs: from a model that mostly answers
// at length, by each objective, as the metrics and the text of the model show.
#include <fstream>

#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

constexpr const char* kTemplate =
    "{% for m in messages %}{{ m.role }}: {{ m.content }}{% if m.role == 'assistant' %}"
    "<|endoftext|>{% endif %} {% endfor %}{% if add_generation_prompt %}assistant: {% endif %}";
constexpr const char* kRun =
    "data: {{ instructions: [{}], sequence_length: 96{} }}\n"
    "precision: fp32\n"
    "optimizer: {{ learning_rate: {}, weight_decay: 0 }}\n"
    "schedule: {{ kind: constant, steps: {} }}\n"
    "run: {{ seed: 1, threads: 1 }}\n{}";

// Questions that name two animals. The short answer is the first of them.
class PreferencesProgram : public ProgramFolder {
 protected:
  PreferencesProgram() {
    constexpr std::array kAnimals = {"ant", "bee", "cat", "dog", "elk", "fox", "gnu"};
    std::string pairs, singles, examples, learned, held;
    for (size_t i = 0; i < 320; ++i) {
      const char *first = kAnimals[i % 7], *second = kAnimals[(i / 7) % 7];
      const auto message = [](const char* role, const std::string& text) {
        return fmt::format(R"([{{"role":"{}","content":"{}"}}])", role, text);
      };
      const std::string question = message("user", fmt::format("{} {}?", first, second)),
                        chosen = message("assistant", first),
                        rejected = message("assistant", fmt::format("{} or {}", first, second));
      const std::string pair = fmt::format(R"({{"prompt":{},"chosen":{},"rejected":{}}})"
                                           "\n",
                                           question, chosen, rejected);
      pairs += pair;
      // Questions that end in "gnu" are held out.
      const bool is_held = second == kAnimals[6];
      (is_held ? held : learned) += is_held && i > 49 ? "" : pair;
      const auto single = [&](bool good) {
        return fmt::format(R"({{"prompt":{},"completion":{})", question, good ? chosen : rejected);
      };
      singles += single(i % 2 == 0) + fmt::format(R"(,"label":{}}})", i % 2 == 0) + "\n";
      examples += single(i % 4 == 0) + "}\n";
    }
    put("pairs.jsonl", pairs);
    put("learned.jsonl", learned);
    put("held.jsonl", held);
    put("singles.jsonl", singles);
    put("examples.jsonl", examples);
    put("template.jinja", kTemplate);
    put("tuned.yaml", fmt::format(kRun, "examples.jsonl",
                                  ", tokenizer: t.json, chat_template: template.jinja", 5e-3, 200,
                                  "batch: { global: 8, micro: 8 }\n"
                                  "model: { family: llama, layers: 2, hidden: 64, heads: 4, "
                                  "context: 96, vocabulary: 0 }\n"));
    put("preferred.yaml", fmt::format(kRun, "pairs.jsonl", "", 2e-4, 80,
                                      "batch: { global: 8, micro: 4 }\n"
                                      "checkpoint: { from: tuned, load: weights }\n"));
    good("train tuned.yaml run.directory=tuned");
  }
  std::string good(const std::string& arguments) const {
    const ProgramResult r = run(arguments);
    EXPECT_EQ(r.code, 0) << arguments << "\n" << r.out << r.err;
    return r.out;
  }
  // Each step of a run has pairs that it has not read before.
  std::vector<double> metric(const std::string& run, const char* key) const {
    std::vector<double> values;
    std::istringstream lines(get(run + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const Tree all = parse_json(line, "metrics");
      if (const Tree* value = all.find(key)) values.push_back(number_in(*value).value_or(NAN));
    }
    return values;
  }
  Tree evaluated(const std::string& arguments, const std::string& before = "") const {
    const ProgramResult r = run("eval " + arguments + " --json", before);
    EXPECT_EQ(r.code, 0) << arguments << "\n" << r.err;
    return r.code == 0 ? parse_json(r.out, "eval").find("results")->as_list()->at(0) : Tree();
  }
  std::string answer(const std::string& run) const {
    const Tree all = parse_json(
        good(fmt::format("generate {} --prompt 'user: dog fox? assistant: ' --temperature 0 "
                         "--max-tokens 16 --json",
                         run)),
        "answer");
    return *all.find("text")->as_string();
  }
};

TEST_F(PreferencesProgram, EachObjectiveLearnsThatShortAnswersArePreferred) {
  const std::string before = answer("tuned");  // "dog or fox"
  EXPECT_NE(before.find(" or "), std::string::npos) << before;
  for (const char* kind : {"dpo", "ipo", "orpo", "kto", "simpo", "reward"}) {
    const bool kto = std::string_view(kind) == "kto", reward = std::string_view(kind) == "reward";
    good(fmt::format("train preferred.yaml objective.kind={0} run.directory={0}{1}{2}", kind,
                     kto ? " data.instructions=[singles.jsonl]" : "",
                     reward ? " optimizer.learning_rate=1e-3" : ""));
    const std::vector<double> margins = metric(kind, "rewards_margins");
    ASSERT_EQ(margins.size(), 80u) << kind;
    EXPECT_GT(margins.back(), margins.front() + 0.05) << kind;
    if (!kto) {
      EXPECT_EQ(metric(kind, "rewards_accuracies").back(), 1) << kind;
    }
    // Not always "dog": dpo may lower the probability of the chosen answer, too.
    if (!reward) {
      EXPECT_LT(answer(kind).size(), before.size()) << kind;
    }
  }
}

// Each is rejected by its key, before anything is written.
TEST_F(PreferencesProgram, WhatIsNotSupportedIsRejectedByItsKey) {
  for (const auto& [given, key] :
       {std::pair{"data.template={prompt}{response}", "data.template"},
        {"data.objective=span_corruption", "data.objective"},
        {"compiler.attention=unfused", "compiler.attention"},
        {"loss.z_loss=0.1", "loss.z_loss"},
        {"objective.kind=reward objective.beta=0.3", "objective.beta"},
        {"objective.kind=reward evaluation.tasks=[arc]", "evaluation.tasks"},
        {"objective.gamma=1", "objective.gamma"},
        {"objective.reference=adapters_off", "objective.reference"},
        {"objective.reference=adapters_off lora.rank=4 lora.kind=dora", "objective.reference"}}) {
    const ProgramResult r = run(
        fmt::format("train preferred.yaml objective.kind=dpo run.directory=rejected '{}'", given));
    EXPECT_EQ(r.code, 1) << given;
    EXPECT_NE(r.err.find(key), std::string::npos) << given << "\n" << r.err;
  }
}

// The reference of a run with adapters from a folder has these adapters.
TEST_F(PreferencesProgram, ReferencesAreOfTheAdaptersThatTheRunStartsFrom) {
  for (const int seed : {1, 2}) {
    good(
        fmt::format("train preferred.yaml objective.kind=orpo lora.rank=2 run.seed={0} "
                    "run.directory=r{0} schedule.steps=2",
                    seed));
    good(fmt::format("checkpoint export r{0} --adapter --to a{0}", seed));
  }
  const auto start = [&](const char* adapters) {
    return good(
        fmt::format("train preferred.yaml objective.kind=dpo lora.from={} schedule.steps=1 "
                    "run.directory=dpo checkpoint.save_at_end=false",
                    adapters));
  };
  const char* const computed = "reference log-probabilities of 320 pairs computed";
  EXPECT_NE(start("a1").find(computed), std::string::npos);
  EXPECT_EQ(start("a1").find(computed), std::string::npos);
  EXPECT_NE(start("a2").find(computed), std::string::npos);
}

// Log-probabilities in the run directory are used for the model that computed them only, and up to
// the first damaged pair.
TEST_F(PreferencesProgram, ReferencesOfAnotherModelOrDamagedOnesAreComputedAgain) {
  const auto start = [&](const char* keys) {
    return good(
        fmt::format("train preferred.yaml objective.kind=dpo schedule.steps=1 run.directory=dpo "
                    "checkpoint.save_at_end=false checkpoint.allow_changes=true {}",
                    keys));
  };
  const char* const computed = "reference log-probabilities of 320 pairs computed";
  EXPECT_NE(start("").find(computed), std::string::npos);
  EXPECT_EQ(start("").find(computed), std::string::npos);
  EXPECT_NE(start("lora.rank=2 lora.quantize=nf4").find(computed), std::string::npos);
  EXPECT_NEAR(metric("dpo", "loss").back(), std::log(2), 1e-6);
  EXPECT_NE(start("model.rope_theta=500").find(computed), std::string::npos);
  const double loss = metric("dpo", "loss").back();

  std::string file;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "dpo"))
    if (entry.path().filename().string().starts_with("references-"))
      file = "dpo/" + entry.path().filename().string();
  std::string bytes = get(file);
  bytes[bytes.size() - 24 * 70 + 6] ^= 0x10;  // 70 pairs before the end
  put(file, bytes);
  EXPECT_NE(start("model.rope_theta=500").find("the first 248 from the run directory"),
            std::string::npos);
  EXPECT_EQ(metric("dpo", "loss").back(), loss);
}

TEST_F(PreferencesProgram, ARunResumesWithoutTheFolderOfItsAdapters) {
  const std::string command =
      "train preferred.yaml objective.kind=dpo schedule.steps=2 lora.from=adapters run.directory=";
  good("train preferred.yaml objective.kind=orpo lora.rank=2 run.directory=r schedule.steps=1");
  good("checkpoint export r --adapter --to adapters");
  good(command + "whole");
  good(command + "parts run.stop_after_steps=1");
  std::filesystem::remove_all(folder_ / "adapters");
  EXPECT_EQ(run(command + "new").code, 1);
  good(command + "parts");
  EXPECT_EQ(metric("parts", "loss"), metric("whole", "loss"));
}

double value_in(const Tree& tree, const char* key) {
  const Tree* const found = tree.find(key);
  return found == nullptr ? NAN : number_in(*found).value_or(NAN);
}

constexpr const char* kTwoRanks =
    "OMP_NUM_THREADS=1 mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2";

// A reward model learns from questions of which none is held out, and eval gives the figures and
// the score of each answer.
TEST_F(PreferencesProgram, ARewardModelIsValidatedOnHeldOutPairs) {
  good(
      "train preferred.yaml objective.kind=reward run.directory=scores "
      "data.instructions=[learned.jsonl] 'data.validation=[{name: held, prefix: held.jsonl}]' "
      "metrics.validate_every_steps=1 schedule.warmup_steps=2 schedule.steps=20 "
      "optimizer.learning_rate=1e-3");
  const std::vector<double> accuracies = metric("scores", "validation_rewards_accuracies");
  ASSERT_EQ(accuracies.size(), 20u);
  EXPECT_LT(accuracies.front(), 1);
  EXPECT_EQ(accuracies.back(), 1);
  const double loss = metric("scores", "validation_loss").back();
  const double margin = metric("scores", "validation_rewards_margins").back();
  EXPECT_LT(loss, metric("scores", "validation_loss").front());
  for (const std::string before : {"", kTwoRanks})
    for (const std::string layout : {"copies", "tensor=2", "pipeline=2"}) {
      if (before.empty() != (layout == "copies") && before.empty()) continue;
      const Tree found = evaluated(
          "scores --preferences held.jsonl --scores scores.jsonl --force "
          "--layout " +
              layout,
          before);
      EXPECT_NEAR(value_in(found, "loss"), loss, 1e-5 * loss) << before << layout;
      EXPECT_NEAR(value_in(found, "rewards_margins"), margin, 1e-5 * margin) << before << layout;
      EXPECT_EQ(value_in(found, "rewards_accuracies"), 1) << before << layout;
      EXPECT_EQ(value_in(found, "pairs"), 7) << before << layout;
      std::istringstream lines(get("scores.jsonl"));
      double difference = 0;
      int64_t number = 0;
      for (std::string line; std::getline(lines, line);) {
        const Tree one = parse_json(line, "scores");
        EXPECT_EQ(value_in(one, "line"), static_cast<double>(++number)) << line;
        EXPECT_GT(value_in(one, "chosen"), value_in(one, "rejected")) << line;
        difference += value_in(one, "chosen") - value_in(one, "rejected");
      }
      EXPECT_EQ(number, 7);
      EXPECT_NEAR(difference / 7, margin, 1e-5 * margin);
    }
}

// The reference model of validation pairs is read from the run directory, or is given.
TEST_F(PreferencesProgram, EvalGivesWhatTheRunLogged) {
  const std::string train =
      "train preferred.yaml data.validation=[held.jsonl] schedule.steps=3 "
      "metrics.validate_every_steps=1 objective.kind=";
  for (const char* kind : {"dpo", "ipo", "orpo", "kto", "simpo"}) {
    good(fmt::format("{0}{1} run.directory={1}", train, kind));
    const std::vector<double> losses = metric(kind, "validation_loss");
    ASSERT_EQ(losses.size(), 3u) << kind;
    const Tree found = evaluated(fmt::format("{} --preferences held.jsonl", kind));
    EXPECT_NEAR(value_in(found, "loss"), losses.back(), 1e-6 * losses.back()) << kind;
    EXPECT_NEAR(value_in(found, "rewards_margins"),
                metric(kind, "validation_rewards_margins").back(), 1e-6)
        << kind;
  }
  const double loss = metric("dpo", "validation_loss").back();
  const ProgramResult unknown = run("eval dpo --preferences learned.jsonl");
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("--reference CHECKPOINT"), std::string::npos) << unknown.err;
  EXPECT_NE(unknown.err.find("(tuned)"), std::string::npos) << unknown.err;
  for (const std::string before : {"", kTwoRanks})
    EXPECT_NEAR(
        value_in(evaluated("dpo --preferences held.jsonl --reference tuned", before), "loss"), loss,
        1e-6 * loss);
  // Without adapters, the model is the reference.
  good(train +
       "dpo lora.rank=2 objective.reference=adapters_off run.directory=off "
       "optimizer.learning_rate=1e-2");
  const double off = metric("off", "validation_loss").back();
  EXPECT_GT(std::abs(off - std::log(2)), 1e-3);
  EXPECT_NEAR(value_in(evaluated("off --preferences held.jsonl"), "loss"), off, 1e-6 * off);
  EXPECT_NEAR(value_in(evaluated("off --preferences held.jsonl --reference tuned"), "loss"), off,
              1e-6 * off);
}

TEST_F(PreferencesProgram, AResumedRunHasTheSameValidation) {
  const std::string command =
      "train preferred.yaml objective.kind=dpo data.validation=[held.jsonl] schedule.steps=4 "
      "metrics.validate_every_steps=2 run.directory=";
  good(command + "whole");
  good(command + "parts run.stop_after_steps=2");
  good(command + "parts");
  EXPECT_EQ(metric("whole", "validation_loss").size(), 2u);
  EXPECT_EQ(metric("parts", "validation_loss"), metric("whole", "validation_loss"));
  // A set that the run did not begin with has no log-probabilities under the reference model.
  const ProgramResult other = run(command +
                                  "parts schedule.steps=5 data.validation=[learned.jsonl] "
                                  "checkpoint.allow_changes=true");
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.err.find("pairs of learned.jsonl"), std::string::npos) << other.err;
}

TEST_F(PreferencesProgram, EvalRejectsWhatDoesNotFit) {
  good("train preferred.yaml objective.kind=simpo schedule.steps=1 run.directory=simpo");
  good("train preferred.yaml objective.kind=dpo schedule.steps=1 run.directory=dpo");
  // The ids of 'a' and 'b' are exchanged.
  std::string other = byte_tokenizer();
  other.replace(other.find("\"\\u0061\":97"), 11, "\"\\u0061\":98");
  other.replace(other.find("\"\\u0062\":98"), 11, "\"\\u0062\":97");
  put("other.json", other);
  good("train tuned.yaml run.directory=other data.tokenizer=other.json schedule.steps=1");
  for (const auto& [arguments, code, message] :
       {std::tuple{"eval tuned --preferences held.jsonl", 1, "objective.kind = sft"},
        {"eval simpo --preferences examples.jsonl", 1, "expected 'chosen' and 'rejected'"},
        {"eval simpo --preferences missing.jsonl", 1, "missing.jsonl"},
        {"eval simpo --preferences held.jsonl --reference tuned", 1, "no reference model"},
        {"eval dpo --preferences held.jsonl --reference other", 1,
         "other: its tokenizer gives other tokens than the tokenizer of"},
        {"eval simpo d --scores s.jsonl", 2, "--scores requires --preferences"},
        {"eval simpo --preferences held.jsonl --scores held.jsonl --force", 1, "is an input"},
        {"eval simpo --preferences held.jsonl --scores /dev/full --force", 1, "is a device"},
        {"eval simpo --preferences held.jsonl --adapter tuned", 2, "--adapter"}}) {
    const ProgramResult r = run(arguments);
    EXPECT_EQ(r.code, code) << arguments << r.err;
    EXPECT_NE(r.err.find(message), std::string::npos) << arguments << "\n" << r.err;
  }
}

// A reward model has no logits. Another reward model may start from it.
TEST_F(PreferencesProgram, ARewardModelOnlyGivesScores) {
  const char* const once = "train preferred.yaml objective.kind=reward schedule.steps=1";
  good(fmt::format("{} run.directory=scores", once));
  good(fmt::format("{} run.directory=more checkpoint.from=scores lora.rank=2", once));
  good("checkpoint merge more --out merged");
  for (const char* command :
       {"generate scores --prompt a", "generate merged --prompt a",
        "checkpoint export scores --to exported", "checkpoint export more --adapter --to exported",
        "eval scores d", "eval scores --task piqa",
        "train preferred.yaml objective.kind=dpo run.directory=other checkpoint.from=scores"}) {
    const ProgramResult r = run(command);
    EXPECT_EQ(r.code, 1) << command;
    EXPECT_NE(r.err.find("objective.kind = reward"), std::string::npos) << command << r.err;
  }
}

}  // namespace
}  // namespace tessera::cli

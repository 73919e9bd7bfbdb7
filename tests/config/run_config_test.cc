#include "config/run_config.h"

#include <gtest/gtest.h>

namespace tessera::config {
namespace {

const std::string kRun =
    "run: { name: x, seed: 7 }\n"
    "model: { layers: 4, hidden: 128, heads: 8, vocabulary: 50304, context: 128 }\n"
    "data: { tokenizer: t.json, train: [a], validation: [b/c], sequence_length: 128 }\n"
    "batch: { global: 16, micro: 2 }\n";

RunConfig read(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return read_run(parse_yaml(yaml, "run.yaml"), "run.yaml", overrides);
}

std::string error_of(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  try {
    validate(read(yaml, overrides));
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(RunConfig, ReadsTheRunFileOfTheDesign) {
  const RunConfig c = read(
      "run:        { name: p, directory: runs/p, seed: 1234, device: auto }\n"
      "model:      { preset: pythia-14m }\n"
      "data:       { tokenizer: t.json, train: [prefix], validation: [prefix], sequence_length: 64 "
      "}\n"
      "batch:      { global: 256, micro: 4 }\n"
      "optimizer:  { kind: adamw, learning_rate: 1.0e-3, beta1: 0.9, beta2: 0.95, epsilon: "
      "1.0e-8,\n"
      "              weight_decay: 0.1, clip_norm: 1.0 }\n"
      "schedule:   { kind: cosine, steps: 1000, warmup_steps: 10, min_lr_ratio: 0.1 }\n"
      "precision:  bf16\n"
      "layout:     { data: 1, tensor: 1, pipeline: 1, context: 1, expert: 1, sequence_parallel: "
      "true,\n"
      "              interleave: 1, pipeline_schedule: 1f1b, zero: 1, recompute: none }\n"
      "checkpoint: { every_steps: 100, keep: 3, resume: auto }\n"
      "metrics:    { every_steps: 1, validate_every_steps: 100, tensorboard: true }\n");
  validate(c);
  EXPECT_EQ(c.optimizer.learning_rate, 1e-3);
  EXPECT_EQ(c.precision, compile::Precision::kBf16);
  EXPECT_EQ(c.model.layers, 6);
  EXPECT_EQ(c.schedule.warmup_steps, 10);
}

TEST(RunConfig, L10_NumbersOutsideTheirRangeAreRefused) {
  for (const char* given : {"optimizer.epsilon=1e-320",
                            "optimizer.epsilon=1e300",
                            "optimizer.learning_rate=1e300",
                            "optimizer.learning_rate=1e-300",
                            "optimizer.beta1=0.99999999999",
                            "optimizer.beta2=0.99999999999",
                            "optimizer.weight_decay=1e300",
                            "optimizer.clip_norm=1e-320",
                            "optimizer.clip_norm=1e300",
                            "optimizer.clip_threshold=1e-320",
                            "optimizer.min_parameter_scale=1e300",
                            "model.init_std=1e300",
                            "model.init_std=1e-320",
                            "model.norm_epsilon=1e-320",
                            "model.rope_theta=1e300",
                            "model.dropout=0.99999999999",
                            "model.attention_dropout=0.99999999999",
                            "lora.alpha=1e300",
                            "loss_scale.initial=1e300",
                            "loss_scale.min=1e-300",
                            "loss_scale.hysteresis=1000000",
                            "divergence.ratio=0.5",
                            "divergence.steps=0",
                            "divergence.spike=-1",
                            "data.split=1e308,1e308,0"}) {
    const std::string error = error_of(kRun, {given});
    const std::string path(given, std::string_view(given).find('='));
    EXPECT_NE(error.find(path + " = "), std::string::npos) << given << ": " << error;
  }
  // More than a double holds.
  EXPECT_NE(error_of(kRun, {"run.seed=9007199254740994"}).find("run.seed: found the number"),
            std::string::npos);
  for (const char* weights : {"{prefix: a, weight: 1.0e+308}", "{prefix: a, weight: 1.0e-308}"}) {
    const std::string error = error_of(kRun, {fmt::format("data.train=[b, {}]", weights)});
    EXPECT_NE(error.find("data.train has a with weight"), std::string::npos) << error;
  }
  for (const char* given :
       {"optimizer.learning_rate=1e30", "optimizer.learning_rate=1e-30", "optimizer.epsilon=1e-30",
        "optimizer.clip_norm=0", "divergence.ratio=0", "divergence.spike=0",
        "loss_scale.initial=1e7", "loss_scale.min=1e-7", "model.embedding_dropout=-1"})
    EXPECT_EQ(error_of(kRun, {given}), "no error") << given;
}

TEST(RunConfig, AllFindingsAreListedAtOnceEachWithItsPlace) {
  EXPECT_EQ(error_of(kRun, {"batch.micro=3", "schedule.warmup_steps=2000", "lora.targets=[x]"}),
            "command line: batch.micro = 3 does not divide batch.global = 16. Possible here: 1, 2, "
            "4, 8, 16.\n"
            "command line: lora.targets are given, but lora.rank is 0. Set lora.rank, such as 16, "
            "or for no adapters lora.targets=[]\n"
            "command line: schedule.warmup_steps = 2000 is more than schedule.steps = 1000");
  EXPECT_EQ(error_of(kRun, {"lora.quantize=nf4"}),
            "command line: lora.quantize = nf4, but lora.rank is 0: weights in 4 bits are not "
            "trained. Set lora.rank, such as 16, or lora.quantize=none");
  EXPECT_EQ(error_of(kRun, {"lora.alpha=8", "lora.scaling=rslora"}),
            "command line: lora.alpha = 8, but lora.rank is 0, so all weights are trained. Set "
            "lora.rank, such as 16, or remove lora.alpha\n"
            "command line: lora.scaling = rslora, but lora.rank is 0, so all weights are trained. "
            "Set lora.rank, such as 16, or lora.scaling=rank");
  // Where a number is outside its range, the rules that would use it are not tried.
  EXPECT_EQ(error_of(kRun, {"batch.micro=0", "metrics.every_steps=0", "lora.targets=[x]"}),
            "command line: batch.micro = 0, expected 1 or more\n"
            "command line: metrics.every_steps = 0, expected 1 or more");
}

TEST(RunConfig, ReadsStagesOfTheMixture) {
  const std::string stages =
      "data:\n"
      "  train: [a]\n"
      "  stages:\n"
      "    - { from_tokens: 1000, train: [a, {prefix: b, weight: 2}] }\n"
      "    - { from_tokens: 2000, train: c }\n";
  const RunConfig c = read(stages);
  ASSERT_EQ(c.data.stages.size(), 2u);
  EXPECT_EQ(c.data.stages[0].from_tokens, 1000);
  EXPECT_EQ(c.data.stages[0].train, (std::vector<DataSource>{{"a", 1}, {"b", 2}}));
  EXPECT_EQ(c.data.stages[1].train, (std::vector<DataSource>{{"c", 1}}));
  EXPECT_EQ(read(to_yaml(to_tree(c))).data.stages, c.data.stages);
  EXPECT_EQ(error_of("data:\n  stages:\n    - { from_token: 3 }\n"),
            "run.yaml:3:9: data.stages: unknown key 'from_token'. Did you mean 'from_tokens'?");
  const auto says = [](const std::string& override, const std::string& part) {
    const std::string found = error_of(kRun, {override});
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  says("data.stages=[{from_tokens: 5, train: a}, {from_tokens: 5, train: b}]",
       "has a stage from token 5 after 5, expected ascending");
  says("data.stages=[{from_tokens: 5}]", "has a stage from token 5 without `train`");
  says("data.stages=[{from_tokens: 5, train: {prefix: b, weight: -1}}]", "weight -1");
}

TEST(RunConfig, ChecksInstructionsAndObjective) {
  const auto says = [](const std::vector<std::string>& overrides, const std::string& part) {
    const std::string found = error_of(kRun, overrides);
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  const std::string file = "data.instructions=[i.jsonl]", none = "data.train=[]";
  says({file, none, "data.template='{prompt}{response}'"}, "no error");
  says({file, none, "data.template='{prompt}'"}, "has no {response}, so nothing would be learned");
  says({file, "data.template='{response}'"}, "and data.train are both given");
  says({"data.template='{response}'"}, "data.template is given, but no data.instructions");
  says({"data.objective=span_corruption", "data.noise_density=1"}, "data.noise_density = 1");
  says({"data.objective=span_corruption", "data.mean_span=0.5"}, "data.mean_span = 0.5");
  says({"data.objective=span_corruption", "data.intra_document_masking=true"},
       "is supported only with data.objective = next_token");
  says({"data.objective=span_corruption"}, "needs an encoder");
  says({"data.intra_document_masking=true"}, "no error");
  says({"data.target_length=4"}, "has no encoder");
  says({"model.encoder_layers=2"}, "has no encoder");
  says({"data.size_exponent=-1"}, "data.size_exponent = -1");
}

TEST(RunConfig, AnEncoderNeedsSpansOrPairs) {
  const std::string run =
      "model: { preset: t5-v1.1-small }\ndata: { train: a, sequence_length: 64 }\n";
  const auto says = [&](const std::vector<std::string>& overrides, const std::string& part) {
    const std::string found = error_of(run, overrides);
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  const std::string file = "data.instructions=[i.jsonl]", none = "data.train=[]";
  const std::string asked = "data.template='{prompt}{response}'";
  const std::string spans = "data.objective=span_corruption";
  says({}, "Use span_corruption, or pairs as data.instructions");
  says({spans}, "no error");
  says({spans, "data.target_length=9"}, "makes targets of 14");
  says({spans, "data.intra_document_masking=true"}, "one text per row");
  says({file, none, asked}, "data.target_length is not given");
  says({file, none, asked, "data.target_length=8"}, "no error");
  says({"model.relative_buckets=6"}, "expected a multiple of 4");
  says({"model.kv_heads=3"}, "requires kv_heads = heads = 6");
}

TEST(RunConfig, GivenKeysWinOverThePreset) {
  const RunConfig c =
      read("model: { layers: 3, preset: pythia-14m }\ndata: { train: a }\n", {"model.heads=8"});
  EXPECT_EQ(c.model.layers, 3);
  EXPECT_EQ(c.model.hidden, 128);
  EXPECT_EQ(c.model.heads, 8);
  EXPECT_EQ(c.model.preset, "pythia-14m");
  EXPECT_EQ(c.model.feed_forward, 512);
  EXPECT_EQ(c.data.sequence_length, 2048);
  EXPECT_EQ(c.run.name, "run");
  EXPECT_EQ(c.run.directory, "runs/run");
  EXPECT_EQ(read("", {"model.preset=pythia-14m"}).model.layers, 6);
  EXPECT_EQ(
      error_of("model:\n  preset: pythia-70\n"),
      "run.yaml:2:11: model.preset: there is no preset 'pythia-70'. Did you mean 'pythia-70m'? "
      "Presets of neox: pythia-14m, pythia-31m, pythia-70m, pythia-160m, pythia-410m, pythia-1b, "
      "pythia-1.4b, pythia-2.8b, pythia-6.9b, pythia-12b, gpt-neox-20b");
}

TEST(RunConfig, DataSetsComeWithWeightsAndNames) {
  const RunConfig c = read(
      "data: { train: [a, {prefix: b, weight: 0.5}], validation: [{name: wiki, prefix: c/d}, c/e] "
      "}");
  EXPECT_EQ(c.data.train, (std::vector<DataSource>{{"a", 1}, {"b", 0.5}}));
  EXPECT_EQ(c.data.validation, (std::vector<ValidationSource>{{"wiki", "c/d"}, {"e", "c/e"}}));
  const RunConfig again = read(to_yaml(to_tree(c)));
  EXPECT_TRUE(differences(to_tree(c), to_tree(again)).empty());
  EXPECT_EQ(read("", {"data.train=p"}).data.train.size(), 1u);
  EXPECT_EQ(error_of("data:\n  train: [{prefix: b, wight: 0.5}]\n"),
            "run.yaml:2:23: data.train: unknown key 'wight'. Did you mean 'weight'?");
  EXPECT_EQ(
      error_of("data:\n  train: [{prefix: b, weight: many}]\n"),
      "run.yaml:2:31: data.train.weight: found the text 'many', expected a number, such as 0.1 "
      "or 1e-3");
  EXPECT_EQ(error_of("data: { train: [3] }"),
            "run.yaml:1:17: data.train: found the number 3, expected a PREFIX or {prefix: PREFIX, "
            "weight: NUMBER}");
  EXPECT_EQ(error_of("data: { validation: [a/v, b/v] }"),
            "run.yaml:1:27: data.validation: two datasets have the name 'v'. Give one as {name: …, "
            "prefix: b/v}.");
}

TEST(RunConfig, NamesOfValidationDataFitALine) {
  const auto found = [](const std::string& name) {
    return error_of(kRun, {"data.validation=[{name: \"" + name + "\", prefix: b}]"});
  };
  EXPECT_EQ(found("Größe 1/α"), "no error");
  EXPECT_EQ(found(std::string(100, 'x')), "no error");
  for (const char* name : {"a\\nb", "a\\tb", "a\\x1b[31mb", "a\\u2028b", "a\\u202eb"})
    EXPECT_NE(
        found(name).find("expected one line of text without control characters. Give another"),
        std::string::npos)
        << name << ": " << found(name);
  EXPECT_NE(
      found(std::string(101, 'x')).find("x…\", which has 101 characters, expected at most 100"),
      std::string::npos)
      << found(std::string(101, 'x'));
  // The name is that of the file.
  EXPECT_NE(error_of(kRun, {"data.validation=[\"v/a\\nb\"]"}).find("has the name \"a\\nb\""),
            std::string::npos);
}

TEST(RunConfig, AGoodRunIsValid) { EXPECT_EQ(error_of(kRun), "no error"); }

TEST(RunConfig, SizesThatDoNotFitAreRefusedWithWhatIsPossible) {
  EXPECT_EQ(
      error_of("model: { layers: 4, hidden: 12, heads: 5 }"),
      "run.yaml:1:40: model.heads = 5 does not divide hidden = 12. Possible here: 1, 2, 3, 4, "
      "6, 12.");
  EXPECT_EQ(error_of(kRun, {"batch.micro=3"}),
            "command line: batch.micro = 3 does not divide batch.global = 16. Possible here: 1, 2, "
            "4, 8, 16.");
  EXPECT_EQ(
      error_of(kRun, {"model.family=llama", "model.kv_heads=3"}),
      "command line: model.kv_heads = 3 does not divide heads = 8. Possible here: 1, 2, 4, 8.");
  EXPECT_EQ(
      error_of(kRun, {"model.context=64"}),
      "run.yaml:3:76: data.sequence_length = 128 is longer than model.context = 64. Raise the "
      "context or shorten the sequences.");
  EXPECT_EQ(error_of(kRun, {"schedule.steps=5", "schedule.warmup_steps=6"}),
            "command line: schedule.warmup_steps = 6 is more than schedule.steps = 5");
  EXPECT_TRUE(error_of(kRun, {"layout.tensor=3"})
                  .starts_with("command line: layout.tensor = 3 does not divide heads = "));
  EXPECT_EQ(error_of("run: { name: x }"),
            "run.yaml: model.layers is not given. Give it, or model.preset (such as pythia-70m).");
}

TEST(RunConfig, ATimeLimitHasUnits) {
  EXPECT_EQ(seconds_of("11h30m"), 41400);
  EXPECT_EQ(seconds_of("2d"), 172800);
  EXPECT_EQ(seconds_of("1d1h1m1.5s"), 86400 + 3600 + 61.5);
  for (const char* wrong : {"", "90", "h", "1h1h", "1m1h", "-1h", "0s", "1e3s", "1001d", "1h 30m",
                            "inf s", "nans", "1w"}) {
    EXPECT_FALSE(seconds_of(wrong)) << wrong;
  }
  EXPECT_EQ(error_of(kRun, {"run.time_limit=90m"}), "no error");
  EXPECT_EQ(
      error_of(kRun, {"run.time_limit=90 minutes"}),
      "command line: run.time_limit = \"90 minutes\", expected a time above 0, of 1000 "
      "days at most, as numbers with the units d, h, m and s, in this order, each at most once "
      "and without spaces, such as 11h30m, 90m or 2d");
}

// A step of kRun has 16 sequences of 128 tokens.
TEST(RunConfig, TokensOfTheScheduleGiveItsSteps) {
  const auto steps = [](const std::string& yaml, const std::vector<std::string>& overrides) {
    return read(yaml, overrides).schedule.steps;
  };
  EXPECT_EQ(steps(kRun, {"schedule.tokens=20480"}), 10);
  EXPECT_EQ(steps(kRun, {"schedule.tokens=20481"}), 11);
  EXPECT_EQ(steps(kRun, {"schedule.tokens=2e9"}), 976563);
  EXPECT_EQ(steps(kRun, {"schedule.tokens=20480", "batch.warmup_sizes=[4, 8]",
                         "batch.warmup_steps_per_size=10"}),
            20 + 3);  // 40 and 80 sequences, and 40 of 16 in each
  EXPECT_EQ(steps(kRun, {"schedule.tokens=0"}), 1000);
  EXPECT_EQ(error_of(kRun, {"schedule.tokens=20480"}), "no error");
  // The resolved run file has both.
  const RunConfig resolved = read(kRun, {"schedule.tokens=20480"});
  const std::string both = to_yaml(to_tree(resolved));
  EXPECT_TRUE(differences(to_tree(resolved), to_tree(read(both))).empty());
  // On the command line, one replaces the other.
  EXPECT_EQ(steps(both, {"schedule.steps=7"}), 7);
  EXPECT_EQ(read(both, {"schedule.steps=7"}).schedule.tokens, 0);
  EXPECT_EQ(steps(both, {"schedule.tokens=4096"}), 2);
  EXPECT_EQ(error_of(kRun + "schedule: { steps: 9, tokens: 20480 }\n"),
            "run.yaml:5:31: schedule.tokens = 20480 are 10 steps, but schedule.steps = 9 is given "
            "too. Remove one of them; on the command line, one replaces the other.");
  EXPECT_NE(error_of(kRun, {"schedule.steps=9", "schedule.tokens=20480"}).find("is given too"),
            std::string::npos);
  // Values that no tokens can be counted with are reported as such.
  EXPECT_EQ(error_of(kRun, {"schedule.tokens=20480", "batch.global=0"}),
            "command line: batch.global = 0, expected 1 or more");
  EXPECT_NE(error_of(kRun, {"schedule.tokens=-1"}).find("schedule.tokens = -1, expected"),
            std::string::npos);
  EXPECT_NE(error_of(kRun, {"schedule.tokens=20480", "objective.kind=simpo",
                            "data.instructions=[p.jsonl]", "data.train=[]", "data.validation=[]"})
                .find("schedule.tokens is not supported by objective.kind = simpo"),
            std::string::npos);
  EXPECT_NE(error_of(kRun, {"schedule.tokens=20480", "model.family=t5", "model.encoder_layers=4",
                            "data.objective=span_corruption"})
                .find("schedule.tokens is not supported by family t5"),
            std::string::npos);
}

TEST(RunConfig, WeightsAreFoundByTheirNames) {
  const auto said = [](const std::vector<std::string>& overrides) {
    try {
      const RunConfig run = read(kRun, overrides);
      validate(run);
      validate_names(run);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(said({"lora.rank=128", "optimizer.freeze=[embed.*, '*.norm1.*']"}), "");
  EXPECT_EQ(said({"lora.rank=129", "lora.targets=['*.out.*']"}),
            "command line: lora.rank = 129 is more than layer.attn.out.weight [128, 128] can have. "
            "Expected at most 128, or lora.targets without it.");
  EXPECT_TRUE(
      said({"lora.rank=4", "lora.targets=[layer.attn.qvk.weight]"})
          .starts_with(
              "command line: lora.targets has 'layer.attn.qvk.weight', which does "
              "not name a weight that can have an adapter. Did you mean 'layer.attn.qkv.weight'? "
              "There are: layer.attn.out.weight, layer.attn.qkv.weight, "));
  EXPECT_EQ(said({"lora.rank=4", "lora.targets=[query_key_value, dense_h_to_4h]"}), "");
  EXPECT_EQ(said({"lora.rank=4", "lora.targets=[all-linear]"}), "");
  EXPECT_NE(said({"lora.rank=4", "lora.targets=[q_proj]"})
                .find("dense, dense_4h_to_h, dense_h_to_4h, query_key_value, all-linear."),
            std::string::npos);
  EXPECT_NE(
      said({"lora.rank=4", "lora.targets=['*.norm1.*']"}).find("a weight that can have an adapter"),
      std::string::npos);
  EXPECT_NE(said({"optimizer.freeze=[layer12.mlp.*]"}).find("Did you mean 'layer.mlp.*'?"),
            std::string::npos);
  EXPECT_NE(said({"optimizer.freeze=[mlp]"}).find("a weight. Did you mean '*mlp*'?"),
            std::string::npos);
  EXPECT_NE(said({"optimizer.freeze=['*']"}).find("leaves nothing to train"), std::string::npos);
  const std::vector<std::string> t5{"model.family=t5", "model.encoder_layers=4",
                                    "model.vocabulary=0", "data.objective=span_corruption"};
  std::vector<std::string> frozen = t5;
  frozen.push_back("optimizer.freeze=[encoder.*]");
  EXPECT_EQ(said(frozen), "");
}

// The answers of a row would share the capacity of an expert, and the second would lose more
// tokens.
TEST(RunConfig, PairsOfAnswersHaveNoCapacity) {
  const std::string run =
      "model: { family: mixtral, layers: 2, hidden: 32, heads: 2, experts: 4, vocabulary: 600, "
      "context: 64, router: { capacity_factor: 1 } }\n"
      "data: { instructions: [pairs.jsonl], sequence_length: 64 }\n";
  for (const char* kind : {"dpo", "ipo", "orpo", "kto", "simpo", "reward"})
    EXPECT_NE(error_of(run, {fmt::format("objective.kind={}", kind)})
                  .find("model.router.capacity_factor = 1 is not supported with"),
              std::string::npos)
        << kind;
}

TEST(RunConfig, AFamilyBringsWhatIsItsOwn) {
  const RunConfig c = read(kRun, {"model.family=llama"});
  EXPECT_DOUBLE_EQ(c.model.rotary_pct, 1);
  EXPECT_EQ(c.model.output_init, model::Initializer::kScaledNormal);
  EXPECT_DOUBLE_EQ(read(kRun, {"model.family=llama", "model.rotary_pct=0.5"}).model.rotary_pct,
                   0.5);
  EXPECT_EQ(error_of(kRun, {"model.family=llama", "model.kv_heads=2"}), "no error");
}

TEST(RunConfig, AbsurdSizesAreRefusedAtOnce) {
  EXPECT_NE(
      error_of(kRun, {"batch.global=9007199254740992", "batch.micro=3"}).find("batch.micro = 3"),
      std::string::npos);
  EXPECT_NE(error_of(kRun, {"model.head_width=9007199254740984"}).find("expected 0 to 16777216"),
            std::string::npos);
  for (const char* size : {"model.feed_forward", "model.vocabulary"})
    EXPECT_NE(error_of(kRun, {std::string(size) + "=9007199254740984"})
                  .find("model.hidden = 128 and the other sizes make"),
              std::string::npos)
        << error_of(kRun, {std::string(size) + "=9007199254740984"});
  EXPECT_NE(error_of(kRun, {"batch.global=4398046511104", "batch.micro=4398046511104"})
                .find("batch.global = 4398046511104 in micro-batches of"),
            std::string::npos);
  EXPECT_EQ(error_of(kRun, {"run.device=cuda"}), "no error");  // what the machine has is seen later
  EXPECT_NE(error_of(kRun, {"model.hidden=9223372036854775807"}).find("at most 53 bits"),
            std::string::npos);
}

TEST(RunConfig, EveryRuleHasAMessage) {
  for (const char* bad : {"run.seed=-1",
                          "run.name=a/b",
                          "run.threads=100000",
                          "layout.data=0",
                          "model.context=99999999",
                          "model.layers=2000000000",
                          "model.hidden=-4",
                          "model.kv_heads=2",
                          "model.rotary_pct=0.1",
                          "model.rotary_pct=2",
                          "model.rope_scaling.factor=0.5",
                          "model.rope_scaling.high_freq_factor=1",
                          "model.dropout=1",
                          "model.embedding_dropout=1",
                          "model.norm_epsilon=0",
                          "model.vocabulary_multiple=0",
                          "data.train=[]",
                          "data.train={prefix: p, weight: 0}",
                          "data.split=1,2,x",
                          "data.split=1,2,3,4",
                          "data.split=0,0",
                          "batch.global=0",
                          "batch.micro=0",
                          "optimizer.learning_rate=0",
                          "optimizer.beta1=1",
                          "optimizer.clip_norm=-1",
                          "schedule.steps=-1",
                          "schedule.min_lr_ratio=1.5",
                          "layout.zero=4",
                          "layout.recompute=half",
                          "layout.recompute=full:5",
                          "layout.offload=all",
                          "layout.offload=activations:-1",
                          "checkpoint.keep=-1",
                          "checkpoint.at_steps=[0]",
                          "checkpoint.load=all",
                          "metrics.every_steps=0"}) {
    const std::string path = std::string(bad).substr(0, std::string(bad).find('='));
    EXPECT_TRUE(error_of(kRun, {bad}).starts_with("command line: " + path + " "))
        << error_of(kRun, {bad});
  }
  EXPECT_EQ(error_of(kRun, {"layout.recompute=full:4", "layout.offload=activations:2",
                            "data.split=969,30,1", "run.threads=1"}),
            "no error");
}

}  // namespace
}  // namespace tessera::config

// `--adapter`: adapters over a base model give what the imported copy of both gives, in one command
// or several, on one rank and on several.
#include "checkpoint/checkpoint.h"
#include "checkpoint/stored_model.h"
#include "tests/checkpoint/peft_folder.h"
#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

// A trained base model, its export `hf`, and two PEFT folders of different rank, targets and kind.
// `a-copy` and `b-copy` are the imported copies.
class AdaptersProgram : public ProgramFolder {
 protected:
  AdaptersProgram() {
    put("run.yaml",
        "model: { family: llama, rotary_pct: 1, layers: 2, hidden: 64, heads: 4, kv_heads: 2,\n"
        "         context: 64, vocabulary: 257, vocabulary_multiple: 1, init_std: 0.1 }\n"
        "data: { tokenizer: t.json, train: [d], sequence_length: 32 }\n"
        "batch: { global: 2, micro: 1 }\n"
        "schedule: { kind: constant, steps: 2, warmup_steps: 0 }\n"
        "precision: fp32\n"
        "run: { directory: base, seed: 1, threads: 1 }\n");
    put("words.yaml",
        "kind: choice\ndata: e.jsonl\nform: \"{query} {response}\"\nresponse: \"{choices}\"\n"
        "gold: gold\n");
    put("write.yaml",
        "kind: exact_match\ndata: e.jsonl\nform: \"{query} {response}\"\nresponse: \"{query}\"\n"
        "answer: \"{query}\"\nmax_tokens: 4\n");
    put("e.jsonl",
        "{\"query\": \"the quick\", \"choices\": [\"brown\", \"qqqqq\"], \"gold\": 0}\n"
        "{\"query\": \"fox 7\", \"choices\": [\"zzzzz\", \"jumps\"], \"gold\": 1}\n"
        "{\"query\": \"jumps\", \"choices\": [\"again\", \"the\"], \"gold\": 0}\n");
    good("train run.yaml");
    good("checkpoint export base --to hf");
    peft("a", {.rank = 3, .seed = 1});
    peft("b", {.targets = {"k_proj", "o_proj", "down_proj"}, .rank = 5, .dora = true, .seed = 2});
    good("checkpoint import --from hf --adapter a --out a-copy");
    good("checkpoint import --from base --adapter b --out b-copy");
  }

  void peft(const std::string& name, const checkpoint::PeftFolder& f) const {
    const checkpoint::CheckpointReader base(folder_ / "hf");
    checkpoint::write_peft(folder_ / name, checkpoint::stored_model(base), f);
  }
  std::string good(const std::string& arguments, const std::string& before = "") const {
    const ProgramResult r = run(arguments, before);
    EXPECT_EQ(r.code, 0) << before << " " << arguments << "\n" << r.out << r.err;
    return r.out;
  }
  void fails(const std::string& arguments, int code, const std::vector<std::string>& parts) const {
    const ProgramResult r = run(arguments);
    EXPECT_EQ(r.code, code) << arguments << "\n" << r.out << r.err;
    for (const std::string& part : parts)
      EXPECT_NE(r.err.find(part), std::string::npos) << arguments << "\n" << part << "\n" << r.err;
  }

  static std::string ranks(int n) {
    return fmt::format(
        "OMP_NUM_THREADS=1 mpirun --allow-run-as-root --oversubscribe --bind-to none -n {}", n);
  }
  static std::string eval(const std::string& rest) {
    return "eval " + rest + " --sequence-length 32 --samples 9 --threads 1 --json";
  }
  // The results of a command by the name of the adapters (empty: none was given), in their order,
  // without that name. `rows` are those of --examples.
  struct Results {
    std::map<std::string, std::vector<std::string>> of, rows;
  };
  Results results(const std::string& command, const std::string& before = "") const {
    Results all;
    const auto add = [](Tree t, auto& to) {
      const Tree* const found = t.find("adapter");
      const std::string name = found != nullptr ? *found->as_string() : "";
      std::erase_if(std::get<Tree::Members>(t.value),
                    [](const auto& m) { return m.first == "adapter"; });
      to[name].push_back(to_json(t));
    };
    const Tree root = parse_json(good(command, before), "out");
    for (const Tree& result : *root.find("results")->as_list()) add(result, all.of);
    if (command.find(" --examples ") == command.npos) return all;
    for (const Tree& row : parse_json_lines(get("rows.jsonl"), "rows.jsonl")) add(row, all.rows);
    return all;
  }
};

constexpr const char* kTasks = " --task words.yaml,write.yaml --examples rows.jsonl --force";

TEST_F(AdaptersProgram, SeveralInOneCommandGiveTheResultsOfTheirCopies) {
  peft("c", {.rank = 3, .seed = 3});  // may replace `a` in a loaded model
  good("checkpoint import --from hf --adapter c --out c-copy");
  const std::string what = std::string(" d --text a.txt") + kTasks;
  const std::string command =
      eval("hf" + what + " --adapter a --adapter c --adapter b --adapter none");
  Results together = results(command);
  EXPECT_EQ(together.of.size(), 4u);
  for (const auto& [name, copy] : std::map<std::string, std::string>{
           {"a", "a-copy"}, {"b", "b-copy"}, {"c", "c-copy"}, {"none", "hf"}}) {
    Results alone = results(eval(copy + what));
    ASSERT_EQ(alone.of[""].size(), 4u);
    ASSERT_EQ(alone.rows[""].size(), 6u);
    EXPECT_EQ(together.of[name], alone.of[""]) << name;
    EXPECT_EQ(together.rows[name], alone.rows[""]) << name;
    // The adapters change the loss, log-likelihoods and texts.
    if (name == "none") continue;
    EXPECT_NE(together.of[name][0], together.of["none"][0]);
    EXPECT_NE(together.rows[name][0], together.rows["none"][0]);
    EXPECT_NE(together.rows[name], together.rows[name == "a" ? "c" : "a"]);
  }
  // One after another, in the order of the command; without --json, a line names its adapters.
  const std::string lines = good("eval hf d --adapter c --adapter none --samples 1");
  EXPECT_EQ(lines.find("d  adapter c  loss "), 0u) << lines;
  EXPECT_NE(lines.find("\nd  adapter none  loss "), std::string::npos) << lines;
}

// Each rank reads its part of the adapters.
TEST_F(AdaptersProgram, OnSeveralRanksGiveTheResultsOfTheirCopies) {
  const auto loss = [](const std::string& result) {
    return *number_in(*parse_json(result, "result").find("loss"));
  };
  const std::string both = "hf d --adapter a --adapter b";
  Results alone = results(eval(both + kTasks));
  for (const auto& [n, layout] : {std::pair{2, "tensor=2"},
                                  {2, "copies"},
                                  {4, "tensor=2,pipeline=2"},
                                  {4, "data=4,zero=3"}}) {
    const std::string on = std::string(kTasks) + " --layout " + layout;
    Results divided = results(eval(both + on), ranks(n));
    for (const std::string name : {"a", "b"}) {
      Results copied = results(eval(name + "-copy d" + on), ranks(n));
      EXPECT_EQ(divided.of[name], copied.of[""]) << layout;
      EXPECT_EQ(divided.rows[name], copied.rows[""]) << layout;
      const double one = loss(alone.of[name].at(0));
      EXPECT_NEAR(loss(divided.of[name].at(0)), one, 1e-5 * one) << layout;
    }
  }
}

TEST_F(AdaptersProgram, TextsAndLogitsAreThoseOfTheCopy) {
  const std::string rest = " --prompt 'the quick' --max-tokens 12 --seed 3 --json --threads 1";
  for (const std::string name : {"a", "b"}) {
    const std::string over = " --adapter " + name, copy = name + "-copy";
    const std::string text = good("generate hf" + rest + over);
    EXPECT_EQ(text, good("generate " + copy + rest));
    EXPECT_NE(text, good("generate hf" + rest));
    EXPECT_EQ(good("generate hf" + rest + over + " --layout tensor=2", ranks(2)),
              good("generate " + copy + rest + " --layout tensor=2", ranks(2)));
    put("ids.json", "[[1, 2, 3, 4], [9, 8, 7, 6]]");
    const std::string logits = " --tokens ids.json --threads 1 --force --logits ";
    good("eval hf" + over + logits + "over.safetensors");
    good("eval " + copy + logits + "copy.safetensors");
    EXPECT_TRUE(get("over.safetensors") == get("copy.safetensors"));
  }
  put("chat.jinja", "{% for m in messages %}{{ m.content }} {% endfor %}");
  const std::string chat = " --chat-template chat.jinja --max-tokens 8 --temperature 0 --threads 1";
  EXPECT_EQ(good("chat base --adapter b" + chat, "echo 'the quick' |"),
            good("chat b-copy" + chat, "echo 'the quick' |"));
}

// A run that trained adapters is as good as its export to PEFT.
TEST_F(AdaptersProgram, OfARunAreThoseOfItsExport) {
  good(
      "train run.yaml checkpoint.from=base checkpoint.load=weights lora.rank=2 run.directory=tuned "
      "optimizer.learning_rate=0.01 schedule.steps=4");
  good("checkpoint export tuned --adapter --to peft");
  Results all = results(eval("base d --adapter tuned --adapter peft --adapter none"));
  EXPECT_EQ(all.of["tuned"], all.of["peft"]);
  EXPECT_NE(all.of["tuned"], all.of["none"]);
  EXPECT_EQ(results(eval("tuned d")).of[""], all.of["tuned"]);
  fails("eval tuned d --adapter peft", 1,
        {"tuned/checkpoints/4: has adapters of its own", "checkpoint merge"});
  fails("eval tuned d --adapter none", 1, {"has adapters of its own"});
  // Another model: its layers are missing, or have other sizes.
  for (const char* keys : {"model.layers=3", "model.hidden=128"}) {
    good(fmt::format("train run.yaml run.directory=other schedule.steps=1 {}", keys));
    fails("eval other d --adapter tuned", 1,
          {"its adapters are not those of the base model", "expected ["});
    fails("eval other d --adapter peft", 1,
          {"peft/adapter_model.safetensors: its tensors are not the adapters of", "expected ["});
    std::filesystem::remove_all(folder_ / "other");
  }
}

TEST_F(AdaptersProgram, WhatIsNotAnAdapterIsRejectedWithWhatIs) {
  fails("eval hf d --adapter nowhere", 1,
        {"--adapter nowhere: there is no such folder", "adapter_config.json", "none"});
  fails("eval hf d --adapter base", 1, {"base/checkpoints/2: contains no adapters", "lora.rank"});
  std::filesystem::create_directory(folder_ / "empty");
  fails("generate hf --prompt a --adapter empty", 1,
        {"--adapter empty: is not a PEFT folder", "adapter_config.json"});
  fails("generate a --prompt x", 1, {"a: contains adapters of PEFT, not a model", "--adapter"});
  fails("generate hf --prompt a --adapter a --adapter b", 2, {"--adapter is given 2 times"});
  fails("generate hf --prompt a --adapter ''", 2, {"--adapter is empty, expected a path"});
  fails("eval hf d --adapter ''", 1, {"--adapter: the value is empty"});
  fails("eval hf --adapter a --adapter b --logits l --tokens ids.json", 2,
        {"--logits writes the logits with one --adapter, but 2 were given"});
  // Nothing is evaluated before all adapters are read.
  put("b/adapter_model.safetensors", get("b/adapter_model.safetensors").substr(0, 3000));
  const ProgramResult r = run("eval hf d --adapter a --adapter b");
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(r.out, "");
  EXPECT_NE(r.err.find("b/adapter_model.safetensors"), std::string::npos) << r.err;
}

TEST_F(AdaptersProgram, TheirMeansAreMergedAndExported) {
  good(
      "train run.yaml checkpoint.from=base checkpoint.load=weights lora.rank=2 optimizer.ema=0.5 "
      "optimizer.learning_rate=0.03 schedule.steps=3 run.directory=mean");
  good("checkpoint merge mean --weights ema --out merged");
  good("checkpoint export mean --adapter --weights ema --to peft");
  const auto loss = [&](const std::string& model) {
    const std::string result = results(eval(model)).of.begin()->second.at(0);
    return *number_in(*parse_json(result, "result").find("loss"));
  };
  const double mean = loss("mean d --weights ema");
  EXPECT_GT(std::abs(loss("mean d") - mean), 1e-4);
  EXPECT_NEAR(loss("merged d"), mean, 1e-6 * mean);
  EXPECT_NEAR(loss("base d --adapter peft"), mean, 1e-6 * mean);
}

// Adapters of experts: over a base model, merged, trained, continued in another layout and
// exported.
TEST_F(AdaptersProgram, OfExpertsAreUsedAsThoseOfModules) {
  put("experts.yaml",
      "model: { family: mixtral, layers: 2, hidden: 64, heads: 4, kv_heads: 2, feed_forward: 96,\n"
      "         experts: 4, context: 64, vocabulary: 257, vocabulary_multiple: 1, init_std: 0.1 }\n"
      "data: { tokenizer: t.json, train: [d], sequence_length: 32 }\n"
      "batch: { global: 2, micro: 1 }\n"
      "schedule: { kind: constant, steps: 2, warmup_steps: 0 }\n"
      "optimizer: { learning_rate: 0.01, epsilon: 1.0e-4 }\n"
      "precision: fp32\n"
      "run: { directory: ebase, seed: 1, threads: 1 }\n");
  good("train experts.yaml");
  good("checkpoint export ebase --to ehf");
  const auto over_experts = [&](const std::string& name, const checkpoint::PeftFolder& f) {
    const checkpoint::CheckpointReader base(folder_ / "ehf");
    checkpoint::write_peft(folder_ / name, checkpoint::stored_model(base), f);
    good(fmt::format("checkpoint import --from ehf --adapter {} --out {}-copy", name, name));
  };
  over_experts("e", {.parameters = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"}});
  over_experts("f", {.targets = {}, .parameters = {"mlp.experts.down_proj"}, .rank = 5});
  const auto loss = [](const std::string& result) {
    return *number_in(*parse_json(result, "result").find("loss"));
  };
  Results all = results(eval("ehf d --adapter e --adapter f --adapter none"));
  for (const std::string name : {"e", "f"}) {
    EXPECT_EQ(all.of[name], results(eval(name + "-copy d")).of[""]);
    EXPECT_NE(all.of[name], all.of["none"]);
    // The file that PEFT reads is the one that was imported.
    good(fmt::format("checkpoint export {0}-copy --adapter --to {0}-back", name));
    EXPECT_TRUE(get(name + "/adapter_model.safetensors") ==
                get(name + "-back/adapter_model.safetensors"));
    good(fmt::format("checkpoint merge {0}-copy --out {0}-merged", name));
    const double one = loss(all.of[name].at(0));
    EXPECT_NEAR(loss(results(eval(name + "-merged d")).of[""].at(0)), one, 1e-6 * one);
    for (const auto& [n, layout] :
         {std::pair{2, "tensor=2"}, {2, "data=2,expert=2"}, {4, "data=2,expert=2,pipeline=2"}})
      EXPECT_NEAR(loss(results(eval("ehf d --adapter " + name + " --layout " + layout), ranks(n))
                           .of[name]
                           .at(0)),
                  one, 1e-5 * one)
          << layout;
  }
  // Training from the folder, stopped and continued in another layout, gives the same adapters.
  const std::string tune =
      "train experts.yaml checkpoint.from=ebase checkpoint.load=weights lora.from=e "
      "checkpoint.every_steps=2 ";
  good(tune + "run.directory=whole schedule.steps=4");
  good(tune +
           "run.directory=parts schedule.steps=4 layout.data=2 layout.expert=2 layout.zero=2 "
           "run.stop_after_steps=2",
       ranks(2));
  good(tune + "run.directory=parts schedule.steps=4 layout.tensor=2", ranks(2));
  all = results(eval("ebase d --adapter whole --adapter parts --adapter e"));
  const double tuned = loss(all.of["whole"].at(0));
  EXPECT_NEAR(loss(all.of["parts"].at(0)), tuned, 1e-5 * tuned);
  EXPECT_LT(tuned, loss(all.of["e"].at(0)));
  const std::string text =
      " --prompt 'the quick' --max-tokens 8 --temperature 0 --threads 1 --json";
  EXPECT_EQ(good("generate ebase --adapter parts" + text), good("generate parts" + text));
}

// PEFT takes targets that end in down_proj for those of experts. And transformers has no modules of
// multi-token prediction, so a folder may be without their adapters.
TEST_F(AdaptersProgram, OfMlpsNextToExpertsAreTargetParameters) {
  const std::string model =
      "train run.yaml model.family=deepseek_v3 model.kv_heads=4 model.experts=4 "
      "model.experts_per_token=2 model.expert_feed_forward=24 model.shared_feed_forward=16 "
      "model.dense_layers=[0] model.latent.key_value_rank=16 model.latent.nope_width=8 "
      "model.latent.rope_width=4 model.latent.value_width=8 model.mtp_depth=1 run.directory=";
  good(model + "moe");
  const std::string tune = " checkpoint.from=moe checkpoint.load=weights lora.rank=2 lora.targets=";
  good(model + "modules" + tune + "[o_proj,down_proj] optimizer.learning_rate=0.03");
  good("checkpoint export modules --adapter --to modules-peft");
  const Tree config = parse_json(get("modules-peft/adapter_config.json"), "config");
  EXPECT_EQ(to_json(*config.find("target_modules")), R"(["o_proj"])");
  EXPECT_EQ(to_json(*config.find("target_parameters")),
            R"(["mlp.down_proj.weight","mlp.shared_experts.down_proj.weight"])");
  good(model + "layers" + tune + "[layer.mlp.*] optimizer.learning_rate=0.03");
  good("checkpoint export layers --adapter --to layers-peft");
  const std::string text = " --prompt a --max-tokens 4 --temperature 0 --threads 1 --json";
  for (const std::string name : {"modules", "layers"})
    EXPECT_EQ(good("generate " + name + text),
              good("generate moe --adapter " + name + "-peft" + text));
  good(model + "dora" + tune + "[down_proj] lora.kind=dora");
  fails("checkpoint export dora --adapter --to dora-peft", 1, {"DoRA adapter of", "merge"});
}

TEST_F(AdaptersProgram, OfExpertsAreRejectedWhereTheyAreNotComputed) {
  const std::string run =
      "train run.yaml model.family=mixtral model.experts=4 run.directory=none lora.rank=2 ";
  fails(run + "lora.kind=dora lora.targets=[mlp.experts.down_proj]", 1,
        {"lora.kind = dora", "layer.mlp.experts.down.weight", "lora.kind: lora"});
  fails(run + "lora.targets=[down_proj]", 1, {"lora.targets", "mlp.experts.down_proj"});
  fails(run + "lora.rank=65 lora.targets=[experts.gate_up_proj]", 1,
        {"lora.rank = 65 is more than layer.mlp.experts.up.weight", "at most 64"});
}

}  // namespace
}  // namespace tessera::cli

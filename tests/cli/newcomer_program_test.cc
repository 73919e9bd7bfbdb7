// Messages that a first look at the program needs: which checkpoint is used, where a file was
// looked for, what a run directory has.
#include "tests/cli/held_program.h"

namespace tessera::cli {
namespace {

class FirstLook : public TinyRun {};

TEST_F(FirstLook, TheCheckpointThatIsUsedIsNamedAndADamagedNewerOneToo) {
  trained();
  const std::string text = "--prompt fox --max-tokens 1";
  const std::vector<std::string> commands = {"generate run " + text, "eval run d --samples 1",
                                             "checkpoint export run --to hf"};
  for (const std::string& command : commands) {
    const ProgramResult r = run(command);
    EXPECT_EQ(r.code, 0) << r.err;
    expect_in(r.err, {"checkpoint run/checkpoints/12, step 12"});
    EXPECT_EQ(r.err.find("warning"), std::string::npos) << r.err;
    fs::remove_all(folder_ / "hf");
  }
  put("run/checkpoints/12/index.json", "{");
  for (const std::string& command : commands) {
    const ProgramResult r = run(command);
    EXPECT_EQ(r.code, 0) << r.err;
    expect_in(r.err, {"warning: a newer checkpoint is damaged and not used: run/checkpoints/12",
                      "checkpoint run/checkpoints/9, step 9"});
  }
}

TEST_F(FirstLook, ARunWithoutACheckpointIsARunDirectory) {
  trained();
  fs::remove_all(folder_ / "run/checkpoints");
  const ProgramResult none = run("generate run --prompt fox");
  EXPECT_EQ(none.code, 1);
  expect_in(none.err, {"run: this run has not saved a checkpoint yet"});
  fs::create_directories(folder_ / "run/checkpoints/12.damaged");
  expect_in(run("generate run --prompt fox").err,
            {"run: all checkpoints are damaged; the newest is run/checkpoints/12.damaged"});
  fs::create_directories(folder_ / "empty");
  expect_in(run("generate empty --prompt fox").err, {"empty: contains no intact checkpoint"});
}

TEST_F(FirstLook, ARelativePathIsNamedWithItsKeyAndTheFolderItWasLookedForIn) {
  fs::create_directories(folder_ / "sub");
  const std::string here = fs::canonical(folder_).string();
  const ProgramResult below = run("train ../run.yaml", "cd sub;");
  EXPECT_EQ(below.code, 1);
  expect_in(below.err, {"data.tokenizer = t.json: not found in " + here + "/sub.",
                        "relative to the current folder"});
  EXPECT_FALSE(fs::exists(folder_ / "sub/run"));
  const ProgramResult task = run("train run.yaml evaluation.tasks=[pica] evaluation.every_steps=2");
  EXPECT_EQ(task.code, 1);
  expect_in(task.err, {"evaluation.tasks = pica: ", "no such file in " + here + ".",
                       "Did you mean 'piqa'?", " piqa,"});
}

TEST_F(FirstLook, RecipesAndTasksAreFoundByNameInEveryFolder) {
  const ProgramResult plan = run("plan pythia-70m --cluster h100 --json");
  EXPECT_EQ(plan.code, 0) << plan.err;
  // A file of that name is used first.
  put("pythia-70m", "model: { layers: none }\n");
  const ProgramResult file = run("plan pythia-70m --cluster h100 --json");
  EXPECT_EQ(file.code, 1);
  expect_in(file.err, {"pythia-70m:1:", "model.layers"});

  trained();
  fs::create_directory(folder_ / "examples");
  put("examples/piqa.jsonl", R"({"query": "the", "choices": ["fox", "dog"], "gold": 0})"
                             "\n");
  const ProgramResult task = run("eval run --task piqa --data examples --json");
  EXPECT_EQ(task.code, 0) << task.err;
  expect_in(task.out, {R"("task":"piqa")", R"("examples":1)"});
}

TEST_F(FirstLook, AMisspeltRecipeIsAnsweredWithTheRecipes) {
  const ProgramResult plan = run("plan pythia-14 --cluster h100");
  EXPECT_EQ(plan.code, 1);
  expect_in(plan.err, {"pythia-14: cannot be opened", "Did you mean 'pythia-14m'?",
                       "Recipes: ", " mt5-base ", " pythia-1.4b "});
  const ProgramResult far = run("plan zzzzzzzzzz --cluster h100");
  expect_in(far.err, {"neither a file nor a recipe", "Recipes: frontier-175b "});
  EXPECT_EQ(far.err.find("Did you mean"), std::string::npos) << far.err;
  // A path, or a name with the ending of a file, is not the name of a recipe.
  for (const std::string file : {"run-2.yaml", "./pythia-14"})
    EXPECT_EQ(run("plan " + file + " --cluster h100").err.find("Recipes"), std::string::npos);
}

TEST_F(FirstLook, CommandsOfOtherProgramsAreAnsweredWithOurs) {
  const std::map<std::string, std::string> answers = {
      {"export", "Did you mean 'tessera checkpoint export'?"},
      {"import", "Did you mean 'tessera checkpoint import'?"},
      {"convert", "Did you mean 'tessera checkpoint import'?"},
      {"pretrain", "Did you mean 'tessera train'?"},
      {"infer", "Did you mean 'tessera generate'?"},
      {"inference", "Did you mean 'tessera generate'?"},
      {"sft", "`tessera finetune` fine-tunes a model"},
      {"hparams", "`tessera sweep` finds the keys"},
      {"trian", "Did you mean 'tessera train'?"}};
  for (const auto& [name, answer] : answers) {
    const ProgramResult r = run(name);
    EXPECT_EQ(r.code, 2) << name;
    expect_in(r.err, {"there is no command '" + name + "'. " + answer});
  }
}

TEST_F(FirstLook, ExplainAnswersNamesOfOtherProgramsAsTrainDoes) {
  const std::map<std::string, std::string> answers = {
      {"tensor_model_parallel_size", "(Megatron-LM): use layout.tensor"},
      {"train_iters", "(Megatron-LM): use schedule.steps"},
      {"per_device_train_batch_size", "(Hugging Face Trainer): use batch.micro"},
      {"num_train_epochs",
       "(Hugging Face Trainer): use schedule.steps = epochs x samples / "
       "batch.global, or schedule.tokens = epochs x tokens"}};
  for (const auto& [name, answer] : answers) {
    const std::string message = "unknown key '" + name + "' " + answer;
    const ProgramResult explain = run("config explain " + name);
    EXPECT_EQ(explain.code, 1) << name;
    expect_in(explain.err, {message});
    put("run.yaml", name + ": 2\n");
    expect_in(run("train run.yaml").err, {message});
  }
  expect_in(run("config explain optimiser").err, {"Did you mean 'optimizer'?"});
  expect_in(run("config explain Optimizer").err, {"Did you mean 'optimizer'?"});
  expect_in(run("config explain Schedule.Steps").err, {"Did you mean 'schedule.steps'?"});
  expect_in(run("config explain model.roter").err, {"Did you mean 'model.router'?"});
  expect_in(run("config explain schedule.floor").err, {"(renamed): use schedule.min_lr_ratio"});
  expect_in(run("config explain zzzzzzzzzz").err, {"All keys: tessera config explain"});
}

TEST_F(FirstLook, EvalOfATextFileSaysWhatItReads) {
  trained();
  put("chat.jsonl", "{\"prompt\":\"fox\",\"response\":\"jumps\"}\n");
  const ProgramResult r = run("eval run chat.jsonl");
  EXPECT_EQ(r.code, 1);
  expect_in(r.err, {"chat.jsonl: is a file; expected the PREFIX of a dataset",
                    "`tessera data build`", "--text FILE", "--instructions FILE"});
}

TEST_F(FirstLook, OneThingIsSingular) {
  put("one.txt", "the quick brown fox\n");
  ASSERT_EQ(run("data build --tokenizer t.json --out one one.txt").code, 0);
  expect_in(run("data inspect one").out, {"one: 1 document, "});
  expect_in(run("train run.yaml", "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1").err,
            {"the layout has 1 rank (data 1"});
}

TEST_F(FirstLook, ExplainListsThePresetsOfEachFamily) {
  const std::string text = run("config explain model.preset").out;
  expect_in(text, {"llama: llama2-7b", "gpt2: gpt2", "pythia-70m"});
  const ProgramResult near = run("train run.yaml model.preset=llama");
  expect_in(near.err, {"Did you mean 'llama2-7b'? Presets of llama: llama2-7b, "});
}

}  // namespace
}  // namespace tessera::cli

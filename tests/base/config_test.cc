#include "base/config.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

enum class Colour { kRed, kDarkBlue };
constexpr const char* enum_names(Colour) { return "red|dark_blue"; }

struct Inner {
  int64_t size = 3;
  double rate = 0.5;
  bool open = false;
  static void fields(auto& self, auto&& visit) {
    visit("size", self.size, "how large", at_least(1));
    visit("learning_rate", self.rate, "how fast", zero_or_between(1e-3, 2));
    visit("open", self.open, "whether");
  }
};

struct Outer {
  std::string name = "n";
  Colour colour = Colour::kRed;
  Inner optimizer;
  std::vector<std::string> files;
  std::vector<int64_t> steps;
  static void fields(auto& self, auto&& visit) {
    visit("name", self.name, "its name");
    visit("colour", self.colour, "its colour");
    visit("optimizer", self.optimizer, "");
    visit("files", self.files, "its files");
    visit("steps", self.steps, "its steps");
  }
};

struct Read {
  Outer config;
  SourceLocations places;
};

Read read(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  Read r;
  const std::vector<Field> fields = fields_of(r.config);
  read_fields(fields, parse_yaml(yaml, "run.yaml"), "run.yaml", r.places);
  for (const std::string& o : overrides) read_override(fields, parse_override(o), r.places);
  return r;
}

std::string error_of(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  try {
    read(yaml, overrides);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

std::string out_of_range(const std::vector<std::string>& overrides) {
  Read r = read("", overrides);
  KeyErrors errors;
  check_ranges(fields_of(r.config), errors);
  std::string text;
  for (const KeyError& f : errors.list()) text += f.path + " " + f.message + ". ";
  return text;
}

TEST(Config, FindsNumbersOutsideTheirRange) {
  EXPECT_EQ(out_of_range({}), "");
  EXPECT_EQ(out_of_range({"optimizer.learning_rate=0"}), "");
  EXPECT_EQ(out_of_range({"optimizer.learning_rate=3", "optimizer.size=0"}),
            "optimizer.size = 0, expected 1 or more. "
            "optimizer.learning_rate = 3, expected a value in [0.001, 2], or 0 to turn it off. ");
}

TEST(Config, AnErrorThatBeginsWithAKeyIsAFinding) {
  KeyErrors errors;
  errors.add_error_of([] {});
  EXPECT_TRUE(errors.empty());
  errors.add_error_of([] { throw Error("model.heads = 3 does not fit"); });
  ASSERT_EQ(errors.list().size(), 1u);
  EXPECT_EQ(errors.list()[0].path, "model.heads");
  EXPECT_EQ(errors.list()[0].message, "= 3 does not fit");
}

TEST(Config, ReadsAllTypesAndKeepsDefaults) {
  const Read r = read(
      "name: x\ncolour: dark_blue\noptimizer: { size: 1e3, learning_rate: 2 }\nfiles: [a, "
      "b]\nsteps: 7\n");
  EXPECT_EQ(r.config.name, "x");
  EXPECT_EQ(r.config.colour, Colour::kDarkBlue);
  EXPECT_EQ(r.config.optimizer.size, 1000);
  EXPECT_EQ(r.config.optimizer.rate, 2.0);
  EXPECT_FALSE(r.config.optimizer.open);
  EXPECT_EQ(r.config.files, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(r.config.steps, std::vector<int64_t>{7});
  EXPECT_EQ(r.places.at("optimizer.size"), "run.yaml:3:20");
  EXPECT_FALSE(r.places.contains("optimizer.open"));
}

TEST(Config, TheCommandLineWins) {
  const Read r = read("name: x\noptimizer: { size: 1 }\n",
                      {"optimizer.size=9", "name=12", "files=[c, d]", "steps=[1]",
                       "optimizer={open: true, learning_rate: 1e-3}"});
  EXPECT_EQ(r.config.optimizer.size, 9);
  EXPECT_EQ(r.config.name, "12");
  EXPECT_EQ(r.config.files.size(), 2u);
  EXPECT_TRUE(r.config.optimizer.open);
  EXPECT_EQ(r.config.optimizer.rate, 1e-3);
  EXPECT_EQ(r.places.at("optimizer.size"), "command line");
}

TEST(Config, UnknownKeysNameTheNearestKnownOne) {
  EXPECT_EQ(error_of("name: x\noptimiser:\n    lr: 1\n"),
            "run.yaml:3:5: unknown key 'optimiser.lr'. Did you mean 'optimizer.learning_rate'?");
  EXPECT_EQ(error_of("nam: x"), "run.yaml:1:1: unknown key 'nam'. Did you mean 'name'?");
  EXPECT_EQ(error_of("size: 3"),
            "run.yaml:1:1: unknown key 'size'. Did you mean 'optimizer.size'?");
  EXPECT_EQ(error_of("optimizer: { zzzzzzzz: 1 }"),
            "run.yaml:1:14: unknown key 'optimizer.zzzzzzzz'. Known in 'optimizer': size, "
            "learning_rate, open");
  EXPECT_EQ(error_of("", {"optimizer.sise=3"}),
            "command line: unknown key 'optimizer.sise'. Did you mean 'optimizer.size'?");
}

TEST(Config, AGuessIsNotANameThatOnlyHasAWordInCommon) {
  const std::vector<std::string> keys = {
      "model.rope_scaling.rope_type", "checkpoint.keep_every_tokens",
      "data.target_length",           "data.train",
      "objective.log_probs",          "data.tokenizer",
      "optimizer.learning_rate",      "schedule.warmup_steps",
      "loss.label_smoothing"};
  for (const char* other : {"loss_type", "type", "tokens", "lora_target_linear", "dataset_name",
                            "max_prompt_length", "precompute_ref_log_probs", "tokenizer_type"})
    EXPECT_EQ(nearest(other, keys), "") << other;
  // Misspelled, shortened and misplaced names are still recognized.
  EXPECT_EQ(nearest("lr", keys), "optimizer.learning_rate");
  EXPECT_EQ(nearest("schedule.learning_rate", keys), "optimizer.learning_rate");
  EXPECT_EQ(nearest("learnign_rate", keys), "optimizer.learning_rate");
  EXPECT_EQ(nearest("learningrate", keys), "optimizer.learning_rate");
  EXPECT_EQ(nearest("warmup", keys), "schedule.warmup_steps");
  EXPECT_EQ(nearest("schedule.wrmp", keys), "schedule.warmup_steps");
  EXPECT_EQ(nearest("data.tokeniser", keys), "data.tokenizer");
  EXPECT_EQ(nearest("smoothing", keys), "");  // of which quantity?
  EXPECT_EQ(nearest("data_target_length", keys), "data.target_length");
}

TEST(Config, E4_IntegersAreNeverRounded) {
  const std::string refused =
      "expected an integer of at most 53 bits, -9007199254740992 to 9007199254740992";
  EXPECT_EQ(error_of("optimizer: { size: 9007199254740992 }"), "no error");
  for (const char* size : {"9007199254740993", "-9007199254740993", "9007199254740993.0",
                           "9223372036854775807", "1e17"})
    EXPECT_NE(error_of(fmt::format("optimizer: {{ size: {} }}", size)).find(refused),
              std::string::npos)
        << size << error_of(fmt::format("optimizer: {{ size: {} }}", size));
}

TEST(Config, WrongTypesNameWhatWasFoundAndWanted) {
  EXPECT_EQ(
      error_of("optimizer:\n  size: four\n"),
      "run.yaml:2:9: optimizer.size: found the text 'four', expected an integer (digits only)");
  EXPECT_EQ(error_of("optimizer: { size: 1.5 }"),
            "run.yaml:1:20: optimizer.size: found the number 1.5, expected an integer");
  EXPECT_EQ(error_of("optimizer: { size: 99999999999999999999 }"),
            "run.yaml:1:20: optimizer.size: found the number 1e+20, expected an integer of at most "
            "53 bits, -9007199254740992 to 9007199254740992");
  EXPECT_EQ(error_of("colour: blue"),
            "run.yaml:1:9: colour: found the text 'blue', expected one of red, dark_blue");
  EXPECT_EQ(error_of("name: 12"),
            "run.yaml:1:7: name: found the number 12, expected a text (put it in quotes)");
  EXPECT_EQ(error_of("", {"optimizer.open=1"}),
            "command line: optimizer.open: found the number 1, expected true or false");
  EXPECT_EQ(error_of("optimizer: 3"),
            "run.yaml:1:12: optimizer: found the number 3, expected keys with values");
  for (const char* yaml :
       {"- a", "optimizer: { learning_rate: .inf }", "name: [a]", "files: {a: b}", "steps: [1, x]",
        "optimizer: { open: yes }", "optimizer: { size: }", "colour: 3", "name: {a: b}"})
    EXPECT_TRUE(error_of(yaml).starts_with("run.yaml:1:")) << yaml << ": " << error_of(yaml);
  for (const char* override : {"optimizer.size", "=3", "optimizer.size=[", "optimizer.size=", ""})
    EXPECT_TRUE(error_of("", {override}).starts_with("command line")) << override;
}

TEST(Config, WritesWhatItReads) {
  const Read r = read("colour: dark_blue\nfiles: [a]\noptimizer: { open: true }\n");
  const Tree t = to_tree(r.config);
  EXPECT_EQ(
      to_yaml(t),
      "name: n\ncolour: dark_blue\noptimizer:\n  size: 3\n  learning_rate: 0.5\n  open: true\n"
      "files: [a]\nsteps: []\n");
  EXPECT_TRUE(differences(t, to_tree(read(to_yaml(t)).config)).empty());
}

TEST(Config, DifferencesNameBothValues) {
  const Tree before = to_tree(read("optimizer: { size: 5 }").config);
  Tree after = to_tree(read("name: y").config);
  after.set("added", Tree(true));
  const std::vector<Change> changes = differences(before, after);
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[0].path, "name");
  EXPECT_EQ(changes[1].path, "optimizer.size");
  EXPECT_EQ(changes[1].before, "5");
  EXPECT_EQ(changes[1].after, "3");
  EXPECT_EQ(changes[2].before, "(not given)");
}

}  // namespace
}  // namespace tessera

// The sections of the run file: plain structs with their defaults, listed once in fields().
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "data/instructions.h"
#include "train/schedule.h"

namespace tessera {

enum class Device : uint8_t { kAuto, kCpu, kCuda };
enum class OptimizerKind : uint8_t { kAdamW };
enum class Load : uint8_t { kWeights, kAll };
enum class Objective : uint8_t { kNextToken, kSpanCorruption };
enum class Resume : uint8_t { kAuto, kNever, kRequired };

constexpr const char* enum_names(Device) { return "auto|cpu|cuda"; }
constexpr const char* enum_names(OptimizerKind) { return "adamw"; }
constexpr const char* enum_names(Load) { return "weights|all"; }
constexpr const char* enum_names(Objective) { return "next_token|span_corruption"; }
constexpr const char* enum_names(Resume) { return "auto|never|required"; }

struct RunSection {
  std::string name, directory;
  int64_t seed = 1234;
  Device device = Device::kAuto;
  int64_t threads = 0;
  int64_t stop_after_steps = 0;
  std::string dump_gradients;

  static void fields(auto& self, auto&& visit) {
    visit("name", self.name, "shown in logs; without one, the name of the run file");
    visit("directory", self.directory, "where the run writes; without one, runs/NAME");
    visit("seed", self.seed, "of the initial weights, the order of the data and dropout");
    visit("device", self.device, "auto takes a GPU if there is one");
    visit("threads", self.threads, "CPU threads a rank; 0: all cores that this process may use");
    visit("stop_after_steps", self.stop_after_steps,
          "after this many steps in all: write a checkpoint and leave; 0: go on to the end");
    visit("dump_gradients", self.dump_gradients,
          "debug: a safetensors file for the gradients of the first step");
  }
};

// One data set of the training blend; in a run file its prefix alone will do.
struct DataSource {
  std::string prefix;  // PREFIX.bin and PREFIX.idx
  double weight = 1;   // share of the samples, relative to the other weights
  bool operator==(const DataSource&) const = default;
};

// Another blend, from that token of the run on.
struct DataStage {
  int64_t from_tokens = 0;
  std::vector<DataSource> train;
  bool operator==(const DataStage&) const = default;
};

// One validation set; without a name it has that of its file.
struct ValidationSource {
  std::string name, prefix;
  bool operator==(const ValidationSource&) const = default;
};

void read_value(const Tree& tree, std::vector<DataSource>& value, const Place& place);
void read_value(const Tree& tree, std::vector<DataStage>& value, const Place& place);
void read_value(const Tree& tree, std::vector<ValidationSource>& value, const Place& place);
Tree write_value(const std::vector<DataSource>& x);
Tree write_value(const std::vector<DataStage>& x);
Tree write_value(const std::vector<ValidationSource>& x);
inline std::string type_name(const std::vector<DataSource>&) {
  return "list of PREFIX or {prefix, weight}";
}
inline std::string type_name(const std::vector<DataStage>&) {
  return "list of {from_tokens, train}";
}
inline std::string type_name(const std::vector<ValidationSource>&) {
  return "list of PREFIX or {name, prefix}";
}

struct DataSection {
  std::string tokenizer;
  std::vector<DataSource> train;
  std::vector<DataStage> stages;
  double size_exponent = 0;
  std::vector<std::string> instructions;
  std::string form;
  LongExamples long_examples = LongExamples::kRefuse;
  std::vector<ValidationSource> validation;
  std::string split;
  int64_t sequence_length = 0;
  bool documents_apart = false;
  Objective objective = Objective::kNextToken;
  double noise_density = 0.15, mean_span = 3;

  static void fields(auto& self, auto&& visit) {
    visit("tokenizer", self.tokenizer,
          "a tokenizer.json or SentencePiece model; it travels inside the checkpoints");
    visit("train", self.train, "data sets made by `tessera data build`, blended by weight");
    visit("stages", self.stages,
          "other blends later: each holds from that token of the run on, until the next one");
    visit("size_exponent", self.size_exponent,
          "a set's share is weight x (its tokens)^this; 0: weight alone; mT5's languages: 0.3");
    visit("instructions", self.instructions,
          "instead of train: JSON lines of prompt and response, or of messages");
    visit("template", self.form,
          "text of an instruction: 'Question: {prompt}\nAnswer: {response}'; the loss is on the "
          "response");
    visit("long_examples", self.long_examples, "instructions longer than a sample");
    visit("validation", self.validation, "data sets on which the loss is measured, each apart");
    visit("split", self.split,
          "shares of train, validation and test within each set of data.train, such as 969,30,1");
    visit("sequence_length", self.sequence_length, "tokens a sample; 0: model.context");
    visit("documents_apart", self.documents_apart,
          "attention stays within a document, and positions begin anew in each");
    visit("objective", self.objective,
          "what is learned: the next token, or T5's spans that were taken out of the text");
    visit("noise_density", self.noise_density, "span_corruption: share of tokens taken out");
    visit("mean_span", self.mean_span, "span_corruption: tokens a span, on average");
  }
};

struct BatchSection {
  int64_t global = 1, micro = 1;

  static void fields(auto& self, auto&& visit) {
    visit("global", self.global, "sequences a step, over all ranks");
    visit("micro", self.micro,
          "sequences that a rank computes at once; divides global / data ranks");
  }
};

struct OptimizerSection {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  double clip_norm = 1;

  static void fields(auto& self, auto&& visit) {
    visit("kind", self.kind, "the update rule");
    visit("learning_rate", self.learning_rate, "the peak, which the schedule scales");
    visit("beta1", self.beta1, "decay of the first moment");
    visit("beta2", self.beta2, "decay of the second moment");
    visit("epsilon", self.epsilon, "added to the root of the second moment");
    visit("weight_decay", self.weight_decay, "decoupled; none on norms and biases");
    visit("clip_norm", self.clip_norm, "largest norm of the whole gradient; 0: no clipping");
  }
};

struct ScheduleSection {
  ScheduleKind kind = ScheduleKind::kCosine;
  int64_t steps = 1000, warmup_steps = 0;
  double floor = 0;
  FloorRule floor_rule = FloorRule::kBlend;
  int64_t decay_steps = 0;

  static void fields(auto& self, auto&& visit) {
    visit("kind", self.kind, "shape of the learning rate after the warm-up");
    visit("steps", self.steps, "length of the run");
    visit("warmup_steps", self.warmup_steps, "linear from zero to the peak");
    visit("floor", self.floor, "lowest learning rate, as a share of the peak");
    visit("floor_rule", self.floor_rule,
          "blend: min + (max - min) x shape; clamp: the larger of floor and shape");
    visit("decay_steps", self.decay_steps,
          "steps until the floor, warm-up excluded (wsd: length of the last decay); 0: to the end");
  }
};

struct CheckpointSection {
  int64_t every_steps = 100, keep = 3, keep_every_steps = 0;
  std::vector<int64_t> at_steps;
  std::string from;
  Load load = Load::kWeights;
  Resume resume = Resume::kAuto;
  bool allow_changes = false;

  static void fields(auto& self, auto&& visit) {
    visit("every_steps", self.every_steps, "how often; 0: none but the last");
    visit("keep", self.keep, "how many of the latest stay; 0: all");
    visit("keep_every_steps", self.keep_every_steps, "multiples of this stay for good; 0: none");
    visit("at_steps", self.at_steps, "checkpoints at these steps too; they stay for good");
    visit("from", self.from, "a checkpoint to start from");
    visit("load", self.load, "what is taken from it: the weights, or optimizer and step as well");
    visit("resume", self.resume, "whether a run goes on from the last checkpoint of its directory");
    visit("allow_changes", self.allow_changes, "resume with another model, data or seed");
  }
};

struct MetricsSection {
  int64_t every_steps = 1, validate_every_steps = 100, validate_sequences = 0;
  bool tensorboard = true;
  int64_t trace_step = 0;

  static void fields(auto& self, auto&& visit) {
    visit("every_steps", self.every_steps, "how often a line is written to metrics.jsonl");
    visit("validate_every_steps", self.validate_every_steps, "0: only at the end");
    visit("validate_sequences", self.validate_sequences, "of each validation set; 0: all of it");
    visit("tensorboard", self.tensorboard, "write event files too");
    visit("trace_step", self.trace_step, "write the timeline of this step as trace.json; 0: none");
  }
};

}  // namespace tessera

// The run file: everything that describes a training run, as one plain struct. The keys are the
// fields below (`tessera config explain`); people's scripts rely on them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "compile/layout.h"
#include "config/batch_section.h"
#include "config/chat_section.h"
#include "config/data_section.h"
#include "config/layout_section.h"
#include "config/objective_section.h"
#include "config/optimizer_section.h"
#include "config/run_section.h"
#include "config/schedule.h"
#include "model/model_config.h"

namespace tessera::config {

struct RunConfig {
  RunSection run;
  model::ModelConfig model;
  DataSection data;
  ChatSection chat;
  BatchSection batch;
  ObjectiveSection objective;
  LossSection loss;
  OptimizerSection optimizer;
  LoraSection lora;
  ScheduleSection schedule;
  compile::Precision precision = compile::Precision::kAuto;
  LossScaleSection loss_scale;
  DivergenceSection divergence;
  compile::Layout layout;
  LayoutSearch layout_search;
  compile::CompilerOptions compiler;
  CheckpointSection checkpoint;
  EvaluationSection evaluation;
  MetricsSection metrics;

  std::string source;      // the run file, for messages
  SourceLocations places;  // where each key was given

  static void fields(auto& self, auto&& visit) {
    visit("run", self.run, "");
    visit("model", self.model, "");
    visit("data", self.data, "");
    visit("data", self.chat, "");
    visit("batch", self.batch, "");
    visit("objective", self.objective, "");
    visit("loss", self.loss, "");
    visit("optimizer", self.optimizer, "");
    visit("lora", self.lora, "");
    visit("schedule", self.schedule, "");
    visit("precision", self.precision,
          "policy of the compiler; auto: what is fast and trains well here");
    visit("loss_scale", self.loss_scale, "");
    visit("divergence", self.divergence, "");
    visit("layout", self.layout, "");
    visit("layout", self.layout_search, "");
    visit("compiler", self.compiler, "");
    visit("checkpoint", self.checkpoint, "");
    visit("evaluation", self.evaluation, "");
    visit("metrics", self.metrics, "");
  }
};

// Reads a parsed run file and the command line's key=value after it. model.preset is applied first,
// then every key that was given; then values that follow from others are filled in (run.name,
// run.directory, data.sequence_length, kv_heads, feed_forward). `model`, if given, replaces the
// preset as what the keys of the model section are applied to. Throws Error with file, line and
// column. Left for the data and the machine: model.vocabulary = 0 (the tokenizer's), precision
// auto, run.device auto, run.threads = 0.
RunConfig read_run(const Tree& tree, const std::string& source,
                   std::span<const std::string> overrides,
                   const model::ModelConfig* model = nullptr);

// The errors of a run file. Checks run in three groups, each only where those before it found
// nothing: single values and the model; rules between keys; the layout.
KeyErrors errors_of(const RunConfig& config, DataUse use = DataUse::kRead);

// Throws Error that lists all of them, each with its place.
void validate(const RunConfig& config, DataUse use = DataUse::kRead);

// Throws Error, with the place, where optimizer.freeze, optimizer.groups or lora
// name no weight of the model or ask
// for something that its weights cannot have. Requires a valid run.
void validate_names(const RunConfig& config);

// ---- A scaled-down run that trains on any machine in a minute, from the recipe of a large one.

// Returns the overrides (key=value) that scale a run down. Sizes become small: two layers of width
// 64 (per stack), 8 heads with the same number of queries per KV head, the tokenizer's vocabulary,
// sequences of 64 tokens, 8 per step, 100 steps, one rank, a checkpoint at the end only. The recipe
// stays: family, initialization, data processing, optimizer and its settings, precision,
// recomputation, the kind of schedule, its warm-up and decay as fractions of its steps. AdamW's
// learning rate is 3e-3: rates of large models are too low for 100,000 parameters in 100 steps.
std::vector<std::string> scaled_down_run(const RunConfig& run);

}  // namespace tessera::config

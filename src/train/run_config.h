// The run file: everything that describes a training run, as one plain struct. The keys are the
// fields below (`tessera config explain`); people's scripts rely on them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "compile/layout.h"
#include "model/model_config.h"
#include "train/run_sections.h"

namespace tessera {

struct RunConfig {
  RunSection run;
  ModelConfig model;
  DataSection data;
  BatchSection batch;
  OptimizerSection optimizer;
  LoraSection lora;
  ScheduleSection schedule;
  Precision precision = Precision::kAuto;
  LossScaleSection loss_scale;
  DivergenceSection divergence;
  Layout layout;
  LayoutSearch layout_search;
  CompilerOptions compiler;
  CheckpointSection checkpoint;
  EvaluationSection evaluation;
  MetricsSection metrics;

  std::string source;  // the run file, for messages
  Places places;       // where each key was given

  static void fields(auto& self, auto&& visit) {
    visit("run", self.run, "");
    visit("model", self.model, "");
    visit("data", self.data, "");
    visit("batch", self.batch, "");
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

// Reads a run file and the command line's key=value after it. model.preset is applied first, then
// every key that was given; then what was left open and follows from the rest is filled in
// (run.name, run.directory, data.sequence_length, kv_heads, feed_forward). Throws Error with file,
// line and column. What stays open for the data and the machine: model.vocabulary = 0 (the
// tokenizer's), precision auto, run.device auto, run.threads = 0.
//
// load_run: with checkpoint.from and without model.preset and model.layers the model section is
// that of the checkpoint, overridden by the keys that are given. read_run is pure; `model`, if
// given, is what the keys of the model section are applied to, instead of the preset.
RunConfig load_run(const Path& path, std::span<const std::string> overrides);
RunConfig read_run(const Tree& tree, const std::string& source,
                   std::span<const std::string> overrides, const ModelConfig* model = nullptr);

// Whether a command reads the data of the run, so that the run file must name it.
enum class DataUse : uint8_t { kRead, kIgnored };

// Throws Error where values do not fit each other or this build cannot run them. Names the place,
// the numbers and what would be possible.
void validate(const RunConfig& config, DataUse use = DataUse::kRead);

// Throws Error, with the place, where optimizer.freeze or lora name no weight of the model or ask
// for what its weights cannot have. For a run that is valid.
void validate_names(const RunConfig& config);

}  // namespace tessera

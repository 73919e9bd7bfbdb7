// The start of a run: from its run file to the state before its first step.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "config/schedule.h"
#include "data/tokenizer.h"
#include "train/load_start.h"
#include "train/run_device.h"
#include "train/run_dumps.h"
#include "train/run_reporter.h"
#include "train/run_validation.h"
#include "train/saves.h"
#include "train/step_judge.h"
#include "train/trainer.h"
#include "train/training_input.h"

namespace tessera::train {

// What a started run consists of. The parts refer to each other, so it is never moved.
struct RunParts {
  explicit RunParts(config::RunConfig c) : config(std::move(c)) {}
  RunParts(const RunParts&) = delete;
  RunParts& operator=(const RunParts&) = delete;

  config::RunConfig config;  // resolved: no auto, no zero sizes
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<TrainingInput> input;
  std::optional<RunValidation> validation;
  std::optional<StepJudge> judge;
  std::optional<RunDumps> dumps;
  std::optional<Saves> saves;
  config::Schedule schedule;
  std::string tokenizer_bytes;  // for checkpoints; on rank 0
  int64_t first_step = 1, last_step = 0;
  int64_t tokens = 0;  // trained on before the first step
  Tree data;           // how much data there is (data_counts)
};

class RunStart {
 public:
  RunStart(RunParts& parts, const TrainOptions& options, comm::World& world, RunReporter& reporter)
      : parts_(parts),
        config_(parts.config),
        options_(options),
        world_(world),
        reporter_(reporter) {}

  // Everything that does not depend on where the run starts. Writes nothing but the log.
  void prepare();
  // Weights, data and files, from fresh or from a checkpoint.
  void start();

 private:
  void open_inputs();
  void compile(const RunDevice& device, std::unique_ptr<runtime::PreparedKernels> kernels);
  void report_model();
  void make_saves();
  LoadedStart resume();
  void begin_record(const LoadedStart& loaded);
  const data::Tokenizer& tokenizer();
  void say(const std::string& line) { reporter_.say(line); }
  double since(double s) const { return options_.now_s() - s; }
  Path directory() const { return config_.run.directory; }

  RunParts& parts_;
  config::RunConfig& config_;  // parts_.config
  const TrainOptions& options_;
  comm::World& world_;
  RunReporter& reporter_;
  std::unique_ptr<data::Tokenizer> tokenizer_;
  StartingPoint start_;                  // the same on all ranks
  std::optional<RunPosition> position_;  // of the checkpoint that the run continues
};

}  // namespace tessera::train

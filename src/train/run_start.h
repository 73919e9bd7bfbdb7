// The start of a run: from the run file to the state before the first step.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "config/schedule.h"
#include "data/tokenizer.h"
#include "train/checkpoint_scheduler.h"
#include "train/load_start.h"
#include "train/noise_scale.h"
#include "train/run_device.h"
#include "train/run_dumps.h"
#include "train/run_reporter.h"
#include "train/run_validation.h"
#include "train/source_losses.h"
#include "train/step_judge.h"
#include "train/trainer.h"
#include "train/training_input.h"

namespace tessera::train {

// The parts of a started run. They refer to each other, so the object must not be moved.
struct RunParts {
  explicit RunParts(config::RunConfig c) : config(std::move(c)) {}
  RunParts(const RunParts&) = delete;
  RunParts& operator=(const RunParts&) = delete;

  config::RunConfig config;  // resolved: no `auto`, no zero sizes
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<TrainingInput> input;
  std::optional<RunValidation> validation;
  std::optional<SourceLosses> source_losses;
  NoiseScale noise;
  std::optional<StepJudge> judge;
  std::optional<RunDumps> dumps;
  std::optional<CheckpointScheduler> saves;
  config::Schedule schedule;
  std::string tokenizer_bytes;  // the tokenizer file, for checkpoints; on rank 0
  int64_t first_step = 1, last_step = 0;
  int64_t tokens = 0;  // loss tokens before the first step
  Tree data;           // amount of data (data_counts)
};

class RunStart {
 public:
  RunStart(RunParts& parts, const TrainOptions& options, comm::World& world, RunReporter& reporter)
      : parts_(parts),
        config_(parts.config),
        options_(options),
        world_(world),
        reporter_(reporter) {}

  // Does everything that does not depend on the starting point: resolves the device and sizes,
  // opens the data, compiles and allocates. In the run directory it writes only log.txt and, on a
  // GPU, kernel_selection.txt.
  void prepare();
  // Initializes or loads the weights, sets the position in the data and opens the files of the run.
  void start();

 private:
  void open_inputs();
  void compile(const RunDevice& device, std::unique_ptr<runtime::PreparedKernels> kernels);
  void report_model();
  void make_saves();
  LoadedStart resume();
  void count_steps();
  void set_references(const LoadedStart& loaded);
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
  std::optional<RunPosition> position_;  // from the checkpoint that the run continues
};

}  // namespace tessera::train

// One rank's training: the programs of a run over one arena, step by step.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "data/batches.h"
#include "data/training_data.h"
#include "runtime/machine.h"
#include "train/run_config.h"

namespace tessera {

struct StepResult {
  double loss = 0;       // mean over the loss tokens of the global batch
  double grad_norm = 0;  // of the mean gradient, before clipping
  double tokens = 0;     // loss tokens
  bool finite = true;    // else nothing was updated
};

struct ValidationResult {
  double loss_sum = 0, tokens = 0;
  double loss() const { return tokens > 0 ? loss_sum / tokens : 0; }
};

class Trainer {
 public:
  // Compiles, checks the memory and takes it. `config` is resolved (no auto, no zero sizes).
  Trainer(const RunConfig& config, std::unique_ptr<Library> library, int64_t limit);

  const Program& program() const { return machine_->program(); }
  Machine& machine() { return *machine_; }

  void initialise() { machine_->initialise(static_cast<uint64_t>(config_.run.seed)); }
  // From a checkpoint: all state, or the weights alone (moments start at zero).
  void load(CheckpointReader& checkpoint, Load what);
  // The state as a checkpoint stores it: views into the arena.
  std::vector<StateTensor> state();

  // Step `step` (from 1) on its batch. Where a number is not finite, nothing is updated.
  StepResult step(int64_t step, double learning_rate, BatchSource& batches,
                  const std::function<void(const OpEvent&)>& observe = {});
  // The last step's programs once more, on the same batch and weights.
  void repeat(const std::function<void(const OpEvent&)>& observe);

  // `sequences` samples of a set from its start (at most all of it).
  ValidationResult validate(const ValidationData& data, int64_t sequences);

  // The last step's gradient of each weight: the mean over the loss tokens, by name.
  struct Gradient {
    std::string name;
    TensorView sum;  // over the tokens
    double tokens = 1;
  };
  std::vector<Gradient> gradients();

 private:
  BatchView batch_view(Executor& executor, int64_t microbatch);

  const RunConfig& config_;
  std::unique_ptr<Machine> machine_;
};

}  // namespace tessera

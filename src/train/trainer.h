// One rank's training: the programs of a run over one arena, step by step.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "config/run_config.h"
#include "data/batches.h"
#include "data/training_data.h"
#include "runtime/machine.h"
#include "train/batch_memory.h"

namespace tessera::train {

// Figures of the routers of a mixture of experts in one step.
struct RouterResult {
  double loss = 0;     // sum over the layers; StepResult::loss is without it
  double busiest = 0;  // load of a layer's busiest expert / mean load, mean over sequences, layers
};

struct StepResult {
  int64_t step = 0;
  double loss = 0;       // mean over the loss tokens of the global batch
  double grad_norm = 0;  // of the mean gradient, before clipping
  double tokens = 0;     // loss tokens
  bool finite = true;    // else nothing was updated
  double learning_rate = 0;
  double began_s = 0;                       // on the trainer's clock
  double data_s = 0;                        // from then until the batch was there
  std::optional<RouterResult> router = {};  // nothing: the model has no experts
};

struct ValidationResult {
  double loss_sum = 0, tokens = 0;
  std::string error;  // of this rank: why it could not read its rows; the numbers mean nothing then
  double loss() const { return tokens > 0 ? loss_sum / tokens : 0; }
};

class Trainer {
 public:
  // Compiles, proves the whole mesh's step (rank 0), checks the memory and takes it. `config` is
  // resolved (no auto, no zero sizes). Every rank of `world` makes its own at the same time.
  Trainer(const config::RunConfig& config, std::unique_ptr<runtime::PreparedKernels> kernels,
          int64_t limit, comm::World& world, std::function<double()> now_s);

  // Of programs that were made elsewhere: of training and of validation, over the same state.
  Trainer(const config::RunConfig& config, std::unique_ptr<runtime::Machine> machine)
      : config_(config), machine_(std::move(machine)) {}

  const Program& program() const { return machine_->program(); }
  // Which of the data ranks this is: who reads which sequences.
  int64_t data_rank() const;
  // Its hook before_update is called before a step changes what state() views.
  runtime::Machine& machine() { return *machine_; }

  void initialise();
  // From a checkpoint: all state, or the weights alone (moments start at zero).
  void load(checkpoint::CheckpointReader& checkpoint, config::Load what);
  // What this rank owns of the state, as a checkpoint stores it: views into the arena.
  std::vector<checkpoint::StateTensor> state();

  // The number of updates (steps that were not skipped) since initialise(), or since the start of
  // the run whose state load() read. The optimizer's t and the learning-rate schedule count these.
  int64_t updates() const { return updates_; }
  int64_t next_update() const { return updates_ + under_way() + 1; }

  // Step `step` (from 1) on its batch. Where a number is not finite, nothing is updated.
  StepResult step(int64_t step, double learning_rate, data::BatchSource& batches,
                  const std::function<void(const runtime::OpEvent&)>& observe = {},
                  double loss_scale = 1);
  // step() in two: reading the batch, which may throw an Error on one rank alone and communicates
  // nothing, and the computation, which every rank begins together. Between the two may come
  // finish_step() of steps before it.
  void prepare_step(int64_t step, double learning_rate, data::BatchSource& batches,
                    double loss_scale = 1);
  StepResult run_step(const std::function<void(const runtime::OpEvent&)>& observe = {});
  // run_step() in two, where the device can go from one step to the next without waiting for the
  // host (Executor::start): finish_step() is of the oldest that was started, and comes before
  // anything else is asked. At most two are under way; after one that is not finite nothing is
  // updated. Where a step cannot be started so, none may be under way when it is prepared.
  bool can_start_step(int64_t step) const;
  void start_step();
  StepResult finish_step();
  int64_t under_way() const { return std::ssize(started_); }
  // Of the last step.
  const runtime::CommunicationTime& communication() const;
  // The last finished step's programs once more, on the same batch and weights.
  void repeat(const std::function<void(const runtime::OpEvent&)>& observe);

  // The loss of the weights as they are now, on the first micro-batch that was read last (of each
  // data rank). A save checks it: an update can leave finite weights whose loss is not finite.
  double loss_on_last_batch();
  // Returns true if a step from the weights as they are now, on the batch of the last finished
  // step, has a finite loss and gradient. It costs a step and changes nothing.
  bool can_continue();

  // `sequences` samples of a set from its start (at most all of it). `on_progress` is called after
  // each batch with the number of samples done. Never throws for a row that cannot be read: see
  // ValidationResult::error.
  ValidationResult validate(const data::ValidationData& data, int64_t sequences,
                            const std::function<void(int64_t)>& on_progress);

  // The last step's gradients, summed over the loss tokens and times the loss scale: what this rank
  // owns of them, by the names of their weights.
  std::vector<checkpoint::StateTensor> gradients();
  double loss_tokens();  // of the last step
  double loss_scale();

 private:
  // What the host gives a step.
  struct StepInput {
    int64_t step = 0;
    int64_t update = 0;
    double learning_rate = 0;
    double loss_scale = 1;
    data::BatchSource* batches = nullptr;
    double began_s = 0, data_s = 0;
  };
  void write(StepInput& input);
  StepResult result_of(const StepInput& input);

  const config::RunConfig& config_;
  std::function<double()> now_s_;  // none: times stay 0
  int64_t updates_ = 0;
  size_t last_ = 0;            // the program of the last step that was started
  StepInput next_, finished_;  // next_: prepared
  BatchMemory batch_;
  std::deque<StepInput> started_;  // and not finished
  std::unique_ptr<runtime::Machine> machine_;
};

// ---- The number of updates that a run has made, as its checkpoints keep it. Steps that fp16
// skipped are not updates.

// Returns the number of updates of the run that wrote the checkpoint. Versions before 0.2 stored
// the number of skipped steps instead.
int64_t updates_before(const checkpoint::CheckpointHeader& header);

void save_updates(int64_t updates, Tree& state);

}  // namespace tessera::train

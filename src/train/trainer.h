// Trains on one rank: runs the programs of a run, which share one arena, step by step.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "compile/memory/memory_plan.h"
#include "config/run_config.h"
#include "data/batches.h"
#include "data/preferences.h"
#include "data/training_data.h"
#include "runtime/engine.h"
#include "train/batch_memory.h"
#include "train/metrics.h"
#include "train/noise_scale.h"

namespace tessera::train {

// Figures of the routers of a mixture of experts in one step.
struct RouterResult {
  double loss = 0;     // sum over the layers; StepResult::loss is without it
  double busiest = 0;  // load of a layer's busiest expert / mean load, mean over sequences, layers
  double entropy = 0;  // entropy of a layer's loads / that of even loads, the same mean
  std::optional<double> dropped = {};  // share of the pairs beyond the capacity, the same mean;
                                       // nothing without a capacity
};

struct StepResult {
  int64_t step = 0;
  double loss = 0;       // mean over the loss tokens of the global batch
  double grad_norm = 0;  // norm of the mean gradient, before clipping
  double tokens = 0;     // loss tokens
  bool finite = true;    // false: nothing was updated
  double learning_rate = 0;
  double began_s = 0;                       // start of the step on the trainer's clock
  double data_s = 0;                        // seconds from then until the batch was read
  std::optional<RouterResult> router = {};  // nothing without experts or with pairs
  std::optional<double> mtp_loss = {};      // mean over the tokens of multi-token prediction
  std::optional<PreferenceMetrics> preference = {};  // without it the objective is sft; loss tokens
                                                     // are then pairs
  std::optional<double> z_loss = {};  // mean like `loss`, which is without it; nothing if
                                      // the run has none
  // The communication times of the last step that was run, until the next one is.
  const runtime::CommunicationTime* communication = nullptr;
};

struct ValidationResult {
  double loss_sum = 0, tokens = 0;
  std::string error;  // why this rank could not read its rows; the numbers are then meaningless
  std::optional<PreferenceMetrics> preference = {};  // with pairs, which `tokens` then counts
  double loss() const { return tokens > 0 ? loss_sum / tokens : 0; }
};

// The set of a validation: a dataset or instructions, or pairs of answers.
struct ValidationRows {
  ValidationRows(const data::ValidationData& set) : data(&set) {}
  ValidationRows(const data::PreferenceData& set) : pairs(&set) {}

  const data::ValidationData* data = nullptr;  // one of these two is set
  const data::PreferenceData* pairs = nullptr;
};

class Trainer {
 public:
  // Compiles the programs, verifies the step of the whole mesh (rank 0), checks the memory and
  // allocates it. `config` must be resolved (no `auto`, no zero sizes). Collective: every rank of
  // `world` constructs its trainer at the same time.
  Trainer(const config::RunConfig& config, std::unique_ptr<runtime::PreparedKernels> kernels,
          int64_t limit, comm::World& world, std::function<double()> now_s);

  // Uses an engine with existing programs for training and validation, which share their state.
  Trainer(const config::RunConfig& config, std::unique_ptr<runtime::Engine> engine)
      : config_(config), engine_(std::move(engine)) {}

  const Program& program() const { return engine_->program(); }
  // Returns the index of this rank among the data-parallel ranks, which selects the sequences that
  // it reads.
  int64_t data_rank() const;
  // Returns the engine. Its hook before_update is called before a step changes what state() views.
  runtime::Engine& engine() { return *engine_; }

  void initialize();  // initial weights, and zero optimizer state
  // Loads all state from a checkpoint, or only the weights (moments then start at zero).
  void load(checkpoint::CheckpointReader& checkpoint, config::Load what);
  // Returns the part of the state that this rank owns and writes to checkpoints, as views into the
  // arena.
  std::vector<checkpoint::StateTensor> state();

  // Returns the number of updates (steps that were not skipped) since initialize(), or since the
  // start of the run whose state load() read. The optimizer's t and the learning-rate schedule
  // count updates.
  int64_t updates() const { return updates_; }
  int64_t next_update() const { return updates_ + under_way() + 1; }

  // Runs step `step` (from 1) on its batch. If a number is not finite, nothing is updated.
  StepResult step(int64_t step, double learning_rate, data::BatchSource& batches,
                  const std::function<void(const runtime::OpEvent&)>& observe = {},
                  double loss_scale = 1);
  // step() in two parts. prepare_step() reads the batch: it may throw Error on a single rank and
  // does not communicate. run_step() computes, and all ranks call it together. finish_step() for
  // earlier steps may be called between the two.
  void prepare_step(int64_t step, double learning_rate, data::BatchSource& batches,
                    double loss_scale = 1);
  StepResult run_step(const std::function<void(const runtime::OpEvent&)>& observe = {});
  // run_step() in two parts, for devices that can proceed to the next step without waiting for the
  // host (Executor::start). finish_step() completes the oldest step that was started. At most two
  // steps may be started and unfinished, and they must be finished before state, gradients or
  // reports are read. After a step that is not finite, the started ones update nothing. If
  // can_start_step(step) is false, all steps must be finished before that step is prepared.
  bool can_start_step(int64_t step) const;
  void start_step();
  StepResult finish_step();
  int64_t under_way() const { return std::ssize(started_); }
  // Runs the program of the last finished step again, on the same batch and the present weights.
  void repeat(const std::function<void(const runtime::OpEvent&)>& observe);

  // Returns the loss of the present weights on the first micro-batch of the last batch (of each
  // data-parallel rank). A save checks it, because an update can leave finite weights whose loss is
  // not finite.
  double loss_on_last_batch();
  // Returns true if a step from the present weights on the batch of the last finished step has a
  // finite loss and gradient. It costs a step and changes nothing.
  bool can_continue();

  // Validates on the first `samples` samples of a set. `on_progress` is called after each batch
  // with the number of samples done. A row that cannot be read is reported in
  // ValidationResult::error instead of an exception. A schedule-free optimizer is validated at its
  // average. Pairs must have the log-probabilities under the reference model if the objective has
  // one; what a loss reads from the batch of a step (z of kto, the tokens of orpo) is that of all
  // samples together.
  ValidationResult validate(ValidationRows rows, int64_t samples,
                            const std::function<void(int64_t)>& on_progress);

  // Returns the losses of the samples of the prepared step by group, with the present weights and
  // without dropout: what the step itself will measure, divided among the groups. `groups` has the
  // group (from 0) of each sample of the global batch, in order. Runs the forward pass on about one
  // more micro-batch per group than the step has, changes no state, and needs all earlier steps
  // finished. Collective.
  std::vector<ValidationResult> losses_by_group(std::span<const int> groups, int count);

  // Returns the gradient of the first micro-batch of the prepared step, on all data-parallel ranks
  // together: their samples and the norm of the mean gradient. Changes no state, and needs all
  // earlier steps finished and metrics.noise_scale_every_steps. Collective.
  GradientOfBatch gradient_of_part();

  // Returns the part of the last step's gradients that this rank owns, by the names of their
  // weights. They are sums over the loss tokens, multiplied by the loss scale: the mean gradient
  // times gradient_factor().
  std::vector<checkpoint::StateTensor> gradients();
  double gradient_factor();  // loss tokens of the last step, times the loss scale

 private:
  // The input of a step from the host.
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
  comm::World* world_ = nullptr;   // nullptr: one rank
  std::function<double()> now_s_;  // empty: times stay 0
  int64_t updates_ = 0;
  size_t last_ = 0;            // the program of the last step that was started
  StepInput next_, finished_;  // next_: prepared
  BatchMemory batch_;
  std::deque<StepInput> started_;  // steps that are started and not finished
  std::unique_ptr<runtime::Engine> engine_;
};

// Returns the memory of the step that needs the most: a full step, or one of batch.warmup_sizes.
compile::MemoryPlan step_memory(const config::RunConfig& config, const runtime::Engine& engine);

// ---- The number of updates of a run, as checkpoints store it. Steps that fp16 skipped are not
// updates.

// Returns the number of updates of the run that wrote the checkpoint. Versions before 0.2 stored
// the number of skipped steps instead.
int64_t updates_before(const checkpoint::CheckpointHeader& header);

void save_updates(int64_t updates, Tree& state);

}  // namespace tessera::train

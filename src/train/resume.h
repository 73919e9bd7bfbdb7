// Finds where a run starts: at its own last checkpoint, at another checkpoint, or at step 0.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folders.h"
#include "config/run_config.h"

namespace tessera::train {

struct StartingPoint {
  std::vector<Path> candidates;  // checkpoints, the best first; empty: initialize the weights
  config::Load load = config::Load::kAll;
  bool resumes = false;          // true: continues this run; false: begins a run
  bool goes_back = false;        // everything that this run saved after the start is set aside
  std::vector<Path> unfinished;  // saves that were interrupted
};

// Applies checkpoint.resume and checkpoint.from. If `from_step` >= 0, the start is the checkpoint
// of this run at that step. Reads only directory names. Throws Error if there is no such
// checkpoint, or if a checkpoint is required and there is none.
StartingPoint find_start(const config::RunConfig& config, int64_t from_step = -1);

// Returns the differences between the configuration in a checkpoint and the present one. Throws
// Error for changes of model, data, seed, optimizer or adapters, unless checkpoint.allow_changes is
// set.
std::vector<Change> accepted_changes(const config::RunConfig& config, const Tree& saved);

// Returns the model keys whose values differ from those that the weights were trained with and
// change the shapes of weights or what they compute: widths, layers, heads, rotary frequencies,
// norms and activations.
std::vector<Change> changed_computation(const config::RunConfig& config, const Tree& saved_model);

// Returns the same keys. Throws Error, with both values, if there is any except model.vocabulary,
// unless checkpoint.allow_changes is set.
std::vector<Change> accepted_model(const config::RunConfig& config, const Tree& saved_model,
                                   const Path& checkpoint);
// Throws Error if the weights of another run, with the configuration `saved`, have adapters that
// this run would not have, unless checkpoint.allow_changes is set.
void require_adapters_kept(const config::RunConfig& config, const Tree& saved,
                           const Path& checkpoint);
// Returns the changes since the checkpoint that the run starts from: accepted_changes() if it
// resumes, else accepted_model() after require_adapters_kept().
// Throws Error if the optimizer's state is to be loaded and belongs to another optimizer.
std::vector<Change> changes_since(const config::RunConfig& config, const StartingPoint& start,
                                  const Path& checkpoint,
                                  const checkpoint::CheckpointHeader& header);

// Throws Error if the newest checkpoint's header does not match the run, before memory is reserved
// and weights are read. A damaged checkpoint is left to load_newest_intact().
void require_suitable(const config::RunConfig& config, const StartingPoint& start);

// Returns the end of a message about a checkpoint with another model than the run file's: the
// differences and what to do. Returns an empty string if the models agree.
std::string other_model(const config::RunConfig& config, const Tree& saved_model);

}  // namespace tessera::train

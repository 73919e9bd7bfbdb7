// Loads the checkpoint that a run starts from, the same one on all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "comm/world.h"
#include "train/resume.h"
#include "train/trainer.h"

namespace tessera::train {

// Returns rank 0's starting point on all ranks, because a network file system may show them
// different names. Collective; only rank 0 calls `find`.
StartingPoint agreed_start(comm::World& world, const std::function<StartingPoint()>& find);

struct LoadedStart {
  Path checkpoint;
  checkpoint::CheckpointHeader header;
  std::vector<Path> damaged;  // better candidates that were not used
};

// Loads one checkpoint into the trainer, and passes `say` a line for each key whose value has
// changed. Throws DamagedCheckpoint, and Error if the checkpoint is of another run or model. After
// an error the trainer's state is undefined until the next load.
checkpoint::CheckpointHeader load_checkpoint(const Path& checkpoint, const StartingPoint& start,
                                             const config::RunConfig& config, Trainer& trainer,
                                             const std::function<void(const std::string&)>& say);

// Calls `load` with one candidate after the other until none of the ranks finds damage
// (DamagedCheckpoint), and returns that one. `warn` gets a line for each that is not used. Any
// other error, such as one of the system, passes through. Throws Error if all are damaged.
// Collective.
LoadedStart load_newest_intact(const StartingPoint& start, comm::World& world,
                               const std::function<checkpoint::CheckpointHeader(const Path&)>& load,
                               const std::function<void(const std::string&)>& warn);

// Renames the damaged checkpoints of this run and, if the start goes back, sets aside everything it
// saved after `step`. Returns lines for the log. Rank 0 calls it when all ranks have loaded.
std::vector<std::string> make_way(const Path& run, const StartingPoint& start,
                                  const LoadedStart& loaded, int64_t step, double wall_s);

// Returns true if a checkpoint belongs to this run directory.
bool is_own(const Path& run, const Path& checkpoint);

// ---- Setting aside the records of a run after the step from which it restarts. Nothing is
// deleted.

struct SetAside {
  Path run;                // run directory
  int64_t step = 0;        // step of the new start
  bool keeps_line = true;  // the start is a checkpoint of this run, so records up to `step` stay
  double wall_s = 0;       // current time in seconds since 1970, for the name
};

// Moves checkpoints of later steps and TensorBoard's files into
// RUN/set_aside/<UTC time>-after-step-<step>/, and copies the lines of metrics.jsonl after `step`,
// which MetricsRecorder then cuts. Event files hold earlier steps too, so they are copied if those
// stay. If checkpoints/ is on another disk, its folders go to checkpoints/set_aside/ there. Returns
// a line that reports what was moved where; empty if there was nothing. Throws Error.
std::string set_aside(const SetAside& request);

}  // namespace tessera::train

// Runs the training of a run file, to its last checkpoint.
#pragma once

#include <functional>
#include <string>

#include "base/tree.h"
#include "comm/world.h"
#include "config/run_config.h"
#include "launch/heartbeat.h"
#include "train/progress.h"
#include "train/run_folder.h"
#include "train/task_metrics.h"

namespace tessera::train {

// The environment of a run, which the caller passes in: ranks, clocks, terminal, monitor and lock.
struct TrainOptions {
  comm::World* world = nullptr;    // all ranks of the run; nullptr: a single rank
  std::string version;             // program version, for run.yaml and checkpoints
  std::function<double()> now_s;   // a steady clock
  std::function<double()> wall_s;  // seconds since 1970
  int64_t from_step = -1;  // go back to the checkpoint of this step; -1: as the run file sets
  double started_s = 0;    // start of the process, on the steady clock
  bool json = false;       // write log lines to standard error, not standard output
  Progress::Output terminal;
  launch::Heartbeat* heartbeat = nullptr;  // reports this rank's activity; null: not monitored
  TaskEvaluation tasks;                    // evaluates evaluation.tasks; required if there are any
  RunOwner owner;                          // holds the lock of the run directory
};

struct TrainOutcome {
  int64_t step = 0;
  double loss = 0;
  bool interrupted = false;    // true if a signal, the monitor or run.time_limit stopped the run
                               // after a save
  bool out_of_time = false;    // true if it was run.time_limit
  bool stopped_early = false;  // true if schedule.stop ended the run
  int signal = 0;              // the first signal that asked this rank to stop; 0: none
  std::string checkpoint;      // path of the last checkpoint; empty: none
  Tree data;                   // amount of data (data_counts)
};

// Trains as the configuration describes. Throws Error for external errors, and NumericError if the
// loss or a gradient is not finite or the loss has diverged. Collective.
TrainOutcome train(config::RunConfig config, const TrainOptions& options);

}  // namespace tessera::train

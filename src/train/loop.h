// A training run from its run file to its last checkpoint.
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

// What the program knows of the world around it; nothing below reads it otherwise.
struct TrainOptions {
  comm::World* world = nullptr;    // all ranks of the run; nullptr: one
  std::string version;             // of the program, for run.yaml and checkpoints
  std::function<double()> now_s;   // a steady clock
  std::function<double()> wall_s;  // seconds since 1970
  int64_t from_step = -1;          // go back to the checkpoint of this step; -1: by the run file
  double started_s = 0;            // when the process started, on the steady clock
  bool json = false;               // people's lines go to standard error
  Progress::Output terminal;
  launch::Heartbeat* heartbeat = nullptr;  // reports this rank's activity; null: not monitored
  TaskEvaluation tasks;                    // evaluates evaluation.tasks; required if there are any
  RunOwner owner;                          // holds the lock of the run directory
};

struct TrainOutcome {
  int64_t step = 0;
  double loss = 0;
  bool interrupted = false;  // by a signal: saved and left
  int signal = 0;            // the first one that asked this rank to stop; 0: none
  std::string checkpoint;    // the last one; empty: none
  Tree data;                 // how much data there is (data_counts)
};

// Throws Error for what the world got wrong, a loss that is not finite among them.
TrainOutcome train(config::RunConfig config, const TrainOptions& options);

}  // namespace tessera::train

// What a run tells the world while it goes on: metrics.jsonl, TensorBoard and the progress line,
// from one call a step. It owns no clock; times come with the calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "train/metrics.h"
#include "train/progress.h"
#include "train/tensorboard.h"

namespace tessera {

struct RecorderOptions {
  Path directory;           // of the run: metrics.jsonl and tensorboard/ lie here
  int64_t done_steps = 0;   // of the checkpoint that the run goes on from; 0: a new run
  int64_t steps = 0;        // of the whole run
  int64_t every_steps = 1;  // metrics.every_steps; the first and the last step always count
  bool tensorboard = true;
  Progress::Output output;
};

// When it is: seconds of a steady clock, and since 1970.
struct Now {
  double steady_s = 0, wall_s = 0;
};

class Recorder {
 public:
  // Makes the directory, cuts metrics.jsonl back to `done_steps` and opens the files.
  Recorder(const RecorderOptions& options, Now now);

  // `flops_per_s` of the model in this step, 0 where it is not known.
  void step(const StepMetrics& m, double flops_per_s, Now now);
  void validation(const ValidationMetrics& m, Now now);
  // A line for people: "saved 1250 in 0.4 s".
  void print(std::string_view line) { progress_.print(line); }
  // Before a checkpoint of these steps becomes visible.
  void sync() { metrics_.sync(); }
  void finish() { progress_.finish(); }

 private:
  RecorderOptions options_;
  MetricsFile metrics_;
  std::unique_ptr<TensorBoardFile> tensorboard_;
  Progress progress_;
  double mean_step_s_ = 0;  // of the latest steps, for the time that is left
};

}  // namespace tessera

// What a person sees while a run goes on: one line, rewritten on a terminal, and one line every
// 30 s elsewhere.
//
//   step 1,240/10,000 ▕██▎       ▏ loss 3.412  norm 0.84  lr 9.6e-4 │ 38.2 k tok/s
//   0.35 TFLOP/s  61 % of matrix rate  exposed comm 3 %  1.31 GiB │ left 4 h 12 min    (one line)
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/count.h"

namespace tessera::train {

struct ProgressState {
  int64_t step = 0, steps = 0;  // done, in all
  double loss = 0, grad_norm = 0, learning_rate = 0;
  double tokens_per_s = 0;
  double flops_per_s = 0;        // of the model; 0: not shown
  double matrix_rate_share = 0;  // 0: not shown (the machine's rate is not known)
  double exposed_share = -1;     // of the step, waiting for other ranks; below 0: not shown
  int64_t memory_bytes = 0;      // 0: not shown
  double left_s = -1;            // below 0: not shown
};

// The pieces, each a pure function.
std::string format_rate(double per_s);            // 38.2 k, 1.24 M, 312 (without the unit)
std::string format_duration(double s);            // 45 s, 12 min 5 s, 4 h 12 min, 3 d 4 h
std::string format_learning_rate(double rate);    // 9.6e-4, 0
std::string format_bar(double share, int cells);  // ▕██▎  ▏, eighths of a cell

// The line. `bar_cells` 0: without a bar, as it is written to a file.
std::string format_progress(const ProgressState& p, int bar_cells);

// The first `columns` columns of a line of UTF-8 whose characters are one column wide each.
std::string cut_to_columns(const std::string& line, int columns);

// Resident memory of this process, from /proc/self/statm; 0 where that cannot be read.
int64_t resident_bytes();

struct StepMetrics;  // train/metrics.h

// Returns the progress after a step: `tokens` in the step, `mean_s` the mean seconds of the last
// steps, `matrix_rate` in flop/s.
ProgressState progress_of(const StepMetrics& m, double tokens, double mean_s, double matrix_rate);

// Writes the lines. Times are the caller's clock, in seconds.
class Progress {
 public:
  struct Output {
    std::FILE* file = nullptr;
    bool terminal = false;  // rewrite one line, else whole lines
    int columns = 0;        // of the terminal; 0: not known
  };
  explicit Progress(Output output) : output_(output) {}

  // Shows the state if it is time to: 5 times a second on a terminal, every 30 s elsewhere, and
  // always at the last step.
  void show(const ProgressState& p, double now_s);
  // A line that stays: the rewritten line makes room for it and comes back with the next show().
  void print(std::string_view line);
  // Leaves the last state standing and ends its line.
  void finish();

 private:
  Output output_;
  double next_s_ = 0;
  bool first_ = true;
  std::string shown_;  // what stands on the rewritten line
};

}  // namespace tessera::train

// The progress display of a run: one line that is rewritten on a terminal, or lines of some steps
// elsewhere.
//
//   step 1,240/10,000 ▕██▎       ▏ loss 3.412  norm 0.84  lr 9.6e-4 │ 38.2 k tok/s
//   0.35 TFLOP/s  61 % of matrix rate  exposed comm 3 %  1.31 GiB │ left 4 h 12 min    (one line)
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "base/count.h"

namespace tessera::train {

struct ProgressState {
  int64_t step = 0, steps = 0;  // completed steps, total steps
  double loss = 0, grad_norm = 0, learning_rate = 0;
  double tokens_per_s = 0;  // or pairs of answers per second; of kto, examples
  std::string_view unit = "tok";
  double flops_per_s = 0;        // model FLOPs; 0: not shown
  double matrix_rate_share = 0;  // 0: not shown (the machine's rate is unknown)
  double exposed_share = -1;     // fraction of the step spent waiting for ranks; below 0: not shown
  int64_t memory_bytes = 0;      // 0: not shown
  double left_s = -1;            // remaining time; below 0: not shown
};

// ---- The parts of the line. All functions are pure.
std::string format_rate(double per_s);            // 38.2 k, 1.24 M, 312 (without the unit)
std::string format_duration(double s);            // 45 s, 12 min 5 s, 4 h 12 min, 3 d 4 h
std::string format_learning_rate(double rate);    // 9.6e-4, 0
std::string format_bar(double share, int cells);  // ▕██▎  ▏, eighths of a cell

// Returns the progress line. With `bar_cells` = 0 it has no bar, as in a file.
std::string format_progress(const ProgressState& p, int bar_cells);

// Returns the first `columns` columns of a UTF-8 line in which each character is one column wide.
std::string cut_to_columns(const std::string& line, int columns);

struct StepMetrics;  // train/metrics.h

// Returns the progress after a step. `tokens` is the number of tokens in the step, `mean_s` the
// mean duration of the last steps, and `matrix_rate` is in FLOP/s.
ProgressState progress_of(const StepMetrics& m, double tokens, double mean_s, double matrix_rate);

// Decides which steps get a line in a file. Times are seconds on the caller's clock.
class StepLines {
 public:
  static constexpr double kPeriod_s = 30;

  // From now on, all multiples of `steps` get a line; with 0, the first step after each period.
  void set_every(int64_t steps) { every_ = steps; }
  // Call it once per step. The last step always gets a line.
  bool due(int64_t step, int64_t last, double now_s);

 private:
  int64_t every_ = 0;
  std::optional<double> next_s_;
};

// Writes the progress lines. Times are seconds on the caller's clock.
class Progress {
 public:
  struct Output {
    std::FILE* file = nullptr;
    bool terminal = false;  // rewrite one line in place; else write separate lines
    int columns = 0;        // width of the terminal; 0: unknown
  };

  explicit Progress(Output output) : output_(output) {}

  // Shows the state: on a terminal 5 times per second and at the last step, elsewhere if `due`.
  void show(const ProgressState& p, double now_s, bool due);
  // Prints a permanent line. On a terminal, the progress line moves below it.
  void print(std::string_view line);
  // Keeps the last progress line on the terminal and ends it with a newline.
  void finish();

 private:
  Output output_;
  std::optional<double> next_s_;
  std::string shown_;  // the current text of the rewritten line
};

}  // namespace tessera::train

// Reports of a run: log lines (also in log.txt), the progress line, metrics, and the activity for
// the monitor. Rank 0 writes; on other ranks all calls except doing() have no effect.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/log.h"
#include "runtime/executor.h"
#include "train/loop.h"
#include "train/metrics_recorder.h"
#include "train/progress.h"
#include "train/step_figures.h"

namespace tessera::train {

class RunReporter {
 public:
  RunReporter(const TrainOptions& options, const comm::World& world);

  bool is_rank0() const { return is_rank0_; }
  void open_log(const Path& file) { log_.open(file); }
  void say(const std::string& line);
  void warn(const std::string& line);

  // Reports the activity of this rank, and its step, to the monitor.
  void doing(int64_t step, std::string_view what);
  void doing(std::string_view what) { doing(step_, what); }
  // Reports an op of the current step; `saving` is the step that is being saved, or -1.
  void doing(const runtime::OpStart& at, int64_t saving) const;

  // Sets metrics.print_every_steps.
  void print_every(int64_t steps) { lines_.set_every(steps); }
  // Opens the metrics. Rank 0 calls it once, when the run is about to change its directory.
  void begin_record(MetricsRecorderOptions options) { record_.emplace(std::move(options)); }
  MetricsRecorder* record() { return record_ ? &*record_ : nullptr; }
  StepFigures& figures() { return figures_; }
  // Reports a step. `m` has all metrics except the rates, which are computed here. `tokens` are
  // loss tokens, `sequences` is the size of the global batch, and `recorded` means that the step
  // gets a line in metrics.jsonl.
  void add(StepMetrics m, double tokens, int64_t sequences, int64_t last_step, bool recorded);
  void add(const SourceMetrics& m);
  void add(const ValidationMetrics& m);
  void add(int64_t step, const TaskMetrics& m);
  void finish_progress() { progress_.finish(); }

 private:
  const TrainOptions& options_;
  bool is_rank0_;
  Log log_;
  Progress progress_;
  std::optional<MetricsRecorder> record_;
  StepFigures figures_;
  int64_t step_ = 0;  // the current step
  StepLines lines_;   // for log.txt and an output that is not a terminal
};

}  // namespace tessera::train

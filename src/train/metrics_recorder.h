// Records the metrics of a run in metrics.jsonl and, if enabled, in TensorBoard files and a file
// for Prometheus. After the run has started, a failed write is a warning and never ends the run
// (base/append_file.h).
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "train/metric_scalars.h"
#include "train/metrics.h"
#include "train/prometheus.h"
#include "train/task_metrics.h"
#include "train/tensorboard.h"

namespace tessera::train {

struct MetricsRecorderOptions {
  Path folder;             // run directory
  int64_t first_step = 1;  // lines of this and later steps from an earlier start are removed
  bool tensorboard = false;
  Path prometheus;                               // empty: no file
  std::string name;                              // name of the run
  std::function<double()> wall_s;                // seconds since 1970
  std::function<void(const std::string&)> warn;  // called by the constructor, add() and finish()
  std::function<bool()>
      owned;  // false: the directory now belongs to another run, add() does nothing
};

class MetricsRecorder {
 public:
  // Throws Error if metrics.jsonl cannot be opened.
  explicit MetricsRecorder(MetricsRecorderOptions options);

  void add(const StepMetrics& m);
  void add(const SourceMetrics& m);
  void add(const ValidationMetrics& m);
  void add(int64_t step, const TaskMetrics& m);
  // Writes the latest figures to the file for Prometheus.
  void finish();
  void sync() { metrics_->sync(); }  // may be called from any thread

  // Returns true if metrics.jsonl has a line of this validation set or task for the step before
  // `first_step`.
  bool has_line_before_start(const std::string& name) const {
    return before_.names_at_step.contains(name);
  }

  // Returns the validations before `first_step`.
  std::span<const ValidationLoss> validations_before_start() const { return before_.validations; }

 private:
  // Appends the line to metrics.jsonl and the figures to the other files.
  void append(int64_t step, const std::string& line, const std::vector<MetricScalar>& scalars);
  TensorBoardFile* events();  // nullptr: not enabled
  void report();

  MetricsRecorderOptions options_;
  Path path_;
  CutBack before_;
  std::optional<AppendFile> metrics_;
  std::optional<TensorBoardFile> tensorboard_;
  std::optional<PrometheusFile> prometheus_;
};

}  // namespace tessera::train

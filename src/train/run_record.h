// What a run writes of its course: metrics.jsonl, and TensorBoard's files where they are wanted.
#pragma once

#include <functional>
#include <optional>

#include "train/metrics.h"
#include "train/task_metrics.h"
#include "train/tensorboard.h"

namespace tessera {

struct RunRecordOptions {
  Path folder;             // of the run
  int64_t first_step = 1;  // lines of it and of later steps, by an earlier start, go
  bool tensorboard = false;
  std::function<double()> wall_s;  // since 1970
};

class RunRecord {
 public:
  explicit RunRecord(RunRecordOptions options);

  void add(const StepMetrics& m);
  void add(const ValidationMetrics& m);
  void add(int64_t step, const TaskMetrics& m);
  void sync() { metrics_.sync(); }

 private:
  RunRecordOptions options_;
  MetricsFile metrics_;
  std::optional<TensorBoardFile> tensorboard_;
};

}  // namespace tessera

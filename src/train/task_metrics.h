// Results of evaluation tasks during a run. Who evaluates is handed in: this room knows no tasks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "comm/world.h"
#include "config/run_config.h"
#include "train/tensorboard.h"

namespace tessera::train {

struct TaskMetrics {
  struct Figure {
    std::string name;  // accuracy, perplexity, …
    double value = 0;
    double error = 0;  // its standard error
  };
  std::string task;
  int64_t examples = 0;
  std::vector<Figure> figures;
};

// Called on all ranks at the same time; `config` is resolved. run() throws on all ranks or on none
// (comm/agree.h).
struct TaskEvaluation {
  std::vector<std::string> names;  // of the tasks
  // Bytes that the run of the tasks takes beside the arena.
  std::function<int64_t(const config::RunConfig& config)> bytes;
  std::function<std::vector<TaskMetrics>(const Path& checkpoint, const config::RunConfig& config,
                                         comm::World& world)>
      run;
};

// {"step":8,"task":"piqa","examples":100,"accuracy":…,"accuracy_error":…}
std::string to_json_line(int64_t step, const TaskMetrics& m);
// As a person reads it: piqa accuracy 0.534 ± 0.031
std::string text_of(const TaskMetrics& m);
// Under task/NAME/METRIC.
void add_to_tensorboard(TensorBoardFile& file, int64_t step, double wall_s, const TaskMetrics& m);

// Throws Error where the tasks' `bytes` do not fit beside a run that needs `need` of `limit`.
void require_task_memory(int64_t bytes, int64_t need, int64_t limit);

}  // namespace tessera::train

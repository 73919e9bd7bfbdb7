// Results of evaluation tasks during a run. The caller passes in the evaluation, so that this
// module does not depend on the tasks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "comm/world.h"
#include "config/run_config.h"

namespace tessera::train {

struct TaskMetrics {
  struct Figure {
    std::string name;  // accuracy, perplexity, …
    double value = 0;
    double error = 0;  // standard error
  };
  std::string task;
  int64_t examples = 0;
  std::vector<Figure> figures;
};

// Evaluates the tasks. run() is called on all ranks at the same time, with a resolved `config`, and
// throws on all ranks or on none (comm/agree.h).
struct TaskEvaluation {
  std::vector<std::string> names;  // names of the tasks
  // Returns the bytes that run() needs in addition to the arena.
  std::function<int64_t(const config::RunConfig& config)> bytes;
  std::function<std::vector<TaskMetrics>(const Path& checkpoint, const config::RunConfig& config,
                                         comm::World& world)>
      run;
};

// Returns {"step":8,"task":"piqa","examples":100,"accuracy":…,"accuracy_error":…}.
std::string to_json_line(int64_t step, const TaskMetrics& m);
// Returns text for the log: "piqa accuracy 0.534 ± 0.031".
std::string text_of(const TaskMetrics& m);

// Throws Error if the `bytes` of the tasks do not fit in addition to the `need` of the run. All
// three are in bytes.
void require_task_memory(int64_t bytes, int64_t need, int64_t limit);

}  // namespace tessera::train

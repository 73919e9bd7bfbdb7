// The section `evaluation` of the run file: tasks whose results are among the metrics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

struct EvaluationSection {
  std::vector<std::string> tasks;
  std::string data;
  int64_t every_steps = 0, limit = 0;

  static void fields(auto& self, auto&& visit) {
    visit("tasks", self.tasks, "task files (docs/evaluation.md) whose results go to the metrics");
    visit("data", self.data, "folder of the tasks' examples; without one, beside each task file");
    visit("every_steps", self.every_steps,
          "how often; each time a checkpoint is saved and read by every rank; 0: only at the end");
    visit("limit", self.limit, "only the first examples of each task; 0: all");
  }
};

}  // namespace tessera

// The evaluation tasks of a run file, for the training loop, which knows none.
#pragma once

#include "train/task_metrics.h"

namespace tessera {

// Reads all tasks and examples of evaluation.tasks. Throws Error as read_tasks does.
TaskEvaluation task_evaluation(const RunConfig& config);

}  // namespace tessera

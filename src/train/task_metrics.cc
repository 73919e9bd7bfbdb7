#include "train/task_metrics.h"

#include "base/count.h"
#include "base/error.h"
#include "base/tree.h"

namespace tessera::train {

// Each figure has its standard error next to it, under its name with "_error".
std::string to_json_line(int64_t step, const TaskMetrics& m) {
  Tree t = Tree::object();
  t.set("step", Tree(step));
  t.set("task", Tree(m.task));
  t.set("examples", Tree(m.examples));
  for (const TaskMetrics::Figure& f : m.figures) {
    t.set(f.name, Tree(f.value));
    t.set(f.name + "_error", Tree(f.error));
  }
  return to_json(t);
}

std::string text_of(const TaskMetrics& m) {
  std::string text = m.task;
  for (const TaskMetrics::Figure& f : m.figures)
    text += fmt::format(" {} {:.3f} ± {:.3f}", f.name, f.value, f.error);
  return text;
}

void require_task_memory(int64_t bytes, int64_t need, int64_t limit) {
  if (need + bytes <= limit) return;
  throw Error(
      "evaluation.tasks: an evaluation needs {:.2f} GiB on this rank in addition to the run's "
      "{:.2f}; this process may use {:.2f}. Remove the tasks from the run file and run "
      "`tessera eval` on the checkpoints.",
      gib(bytes), gib(need), gib(limit));
}

}  // namespace tessera::train

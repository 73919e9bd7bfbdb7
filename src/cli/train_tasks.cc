#include "cli/train_tasks.h"

#include "cli/checkpoint_file.h"
#include "cli/run_file.h"
#include "comm/agree.h"
#include "data/tokenizer.h"
#include "eval/evaluate.h"
#include "eval/likelihood.h"

namespace tessera {
namespace {

ModelOptions options_of(const RunConfig& c) {
  const bool bf16 = c.precision == Precision::kBf16 || c.precision == Precision::kBf16Sr;
  ModelOptions o = {bf16 ? Precision::kBf16 : Precision::kFp32, static_cast<int>(c.run.threads)};
  if (c.run.device == Device::kCuda) o.gpu.emplace();  // the one that this process trains on
  return o;
}

TaskMetrics metrics_of(const Task& task, const TaskResult& r) {
  TaskMetrics out{task.name, std::ssize(r.examples), {}};
  for (const Metric& m : r.metrics) out.figures.push_back({m.name, m.value, m.error});
  return out;
}

}  // namespace

TaskEvaluation task_evaluation(const RunConfig& config) {
  const EvaluationSection& e = config.evaluation;
  TaskEvaluation out;
  if (e.tasks.empty()) return out;
  out.bytes = [](const RunConfig& c) { return likelihood_bytes(c.model, options_of(c)); };
  for (const std::string& file : e.tasks) require_file("evaluation.tasks", file, kTaskHint);
  std::vector<Task> tasks = read_tasks({e.tasks, e.data, -1, e.limit});
  for (const Task& t : tasks) out.names.push_back(t.name);
  out.run = [tasks = std::move(tasks)](const Path& checkpoint, const RunConfig& c, World& world) {
    std::optional<CheckpointReader> reader;
    std::unique_ptr<Tokenizer> tokenizer;
    on_all(world, [&] {
      reader.emplace(checkpoint);
      tokenizer = tokenizer_of(*reader);
    });
    std::vector<TaskMetrics> results;
    for (const Task& t : tasks) {
      const TaskResult r = evaluate(*reader, *tokenizer, t, world, options_of(c));
      results.push_back(metrics_of(t, r));
    }
    return results;
  };
  return out;
}

}  // namespace tessera

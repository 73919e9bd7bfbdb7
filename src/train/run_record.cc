#include "train/run_record.h"

namespace tessera {
namespace {

Path without_later_steps(const RunRecordOptions& o) {
  const Path path = o.folder / "metrics.jsonl";
  cut_back(path, o.first_step - 1);
  return path;
}

}  // namespace

RunRecord::RunRecord(RunRecordOptions options)
    : options_(std::move(options)), metrics_(without_later_steps(options_)) {
  if (options_.tensorboard)
    tensorboard_.emplace(options_.folder / "tensorboard", options_.first_step, options_.wall_s());
}

void RunRecord::add(const StepMetrics& m) {
  metrics_.append(m);
  const TensorBoardFile::Scalar scalars[] = {{"loss", m.loss},
                                             {"grad_norm", m.grad_norm},
                                             {"learning_rate", m.learning_rate},
                                             {"tokens_per_s", m.tokens_per_s}};
  if (tensorboard_) tensorboard_->add(m.step, options_.wall_s(), scalars);
}

void RunRecord::add(const ValidationMetrics& m) {
  metrics_.append(m);
  const std::string tag = "validation_loss/" + m.name;
  const TensorBoardFile::Scalar scalars[] = {{tag, m.validation_loss}};
  if (tensorboard_) tensorboard_->add(m.step, options_.wall_s(), scalars);
}

void RunRecord::add(int64_t step, const TaskMetrics& m) {
  metrics_.append_line(to_json_line(step, m));
  if (tensorboard_) add_to_tensorboard(*tensorboard_, step, options_.wall_s(), m);
}

}  // namespace tessera

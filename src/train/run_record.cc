// Writes a run's metrics to metrics.jsonl and TensorBoard files. Lines of later steps, which an
// earlier start wrote, are removed first, so that the file never has two lines of one step.
#include "train/run_record.h"

#include "base/error.h"

namespace tessera::train {

RunRecord::RunRecord(RunRecordOptions options)
    : options_(std::move(options)), path_(options_.folder / "metrics.jsonl") {
  try {
    // A damaged or unreadable old record must not keep the run from starting.
    before_ = cut_back(path_, options_.first_step - 1);
  } catch (const std::exception& e) {
    options_.warn(e.what());
  }
  if (before_.damaged > 0)
    options_.warn(fmt::format(
        "{}. {} damaged line{} moved to {}; the others are kept.", before_.problem, before_.damaged,
        before_.damaged == 1 ? " was" : "s were", before_.damaged_file.string()));
  metrics_.emplace(path_);
  if (const auto failed = metrics_->take_report()) throw Error("{}", *failed);
}

// Returns the event file, created at the first use: a start that adds nothing leaves no file.
TensorBoardFile* RunRecord::events() {
  if (options_.tensorboard && !tensorboard_)
    tensorboard_.emplace(options_.folder / "tensorboard", options_.first_step, options_.wall_s());
  return tensorboard_ ? &*tensorboard_ : nullptr;
}

void RunRecord::report() {
  if (const auto text = metrics_->take_report()) options_.warn(*text);
  if (!tensorboard_) return;
  if (const auto text = tensorboard_->take_report()) options_.warn(*text);
}

void RunRecord::add(const StepMetrics& m) {
  if (!options_.owned()) return;
  append(to_json_line(m));
  const TensorBoardFile::Scalar scalars[] = {{"loss", m.loss},
                                             {"grad_norm", m.grad_norm},
                                             {"learning_rate", m.learning_rate},
                                             {"tokens_per_s", m.tokens_per_s}};
  if (TensorBoardFile* file = events()) file->add(m.step, options_.wall_s(), scalars);
  report();
}

void RunRecord::add(const ValidationMetrics& m) {
  if (!options_.owned()) return;
  append(to_json_line(m));
  const std::string tag = "validation_loss/" + m.name;
  const TensorBoardFile::Scalar scalars[] = {{tag, m.validation_loss}};
  if (TensorBoardFile* file = events()) file->add(m.step, options_.wall_s(), scalars);
  report();
}

void RunRecord::add(int64_t step, const TaskMetrics& m) {
  if (!options_.owned()) return;
  append(to_json_line(step, m));
  if (TensorBoardFile* file = events()) add_to_tensorboard(*file, step, options_.wall_s(), m);
  report();
}

}  // namespace tessera::train

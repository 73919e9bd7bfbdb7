// Writes a run's metrics to metrics.jsonl, TensorBoard files and a file for Prometheus. Lines of
// later steps, which an earlier start wrote, are removed first, so that the file never has two
// lines of one step.
#include "train/metrics_recorder.h"

#include "base/error.h"

namespace tessera::train {

MetricsRecorder::MetricsRecorder(MetricsRecorderOptions options)
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
  metrics_.emplace(path_, "", options_.owned);
  if (!options_.prometheus.empty()) prometheus_.emplace(options_.prometheus, options_.name);
  if (const auto failed = metrics_->take_report()) throw Error("{}", *failed);
}

// Returns the event file, created at the first use: a start that adds nothing leaves no file.
TensorBoardFile* MetricsRecorder::events() {
  if (options_.tensorboard && !tensorboard_)
    tensorboard_.emplace(options_.folder / "tensorboard", options_.first_step, options_.wall_s(),
                         options_.owned);
  return tensorboard_ ? &*tensorboard_ : nullptr;
}

void MetricsRecorder::report() {
  if (const auto text = metrics_->take_report()) options_.warn(*text);
  if (tensorboard_)
    if (const auto text = tensorboard_->take_report()) options_.warn(*text);
  if (prometheus_)
    if (const auto text = prometheus_->take_report()) options_.warn(*text);
}

void MetricsRecorder::append(int64_t step, const std::string& line,
                             const std::vector<MetricScalar>& scalars) {
  metrics_->append(line + "\n");
  const double wall_s = options_.wall_s();
  if (TensorBoardFile* file = events()) {
    std::vector<std::pair<std::string, double>> values;
    for (const MetricScalar& s : scalars) values.emplace_back(s.tag(), s.value);
    file->add(step, wall_s, values);
  }
  if (prometheus_) {
    prometheus_->set(step, wall_s, scalars);
    prometheus_->write(wall_s, false);
  }
  report();
}

void MetricsRecorder::finish() {
  if (!prometheus_ || !options_.owned()) return;
  prometheus_->write(options_.wall_s(), true);
  report();
}

void MetricsRecorder::add(const StepMetrics& m) {
  if (options_.owned()) append(m.step, to_json_line(m), scalars_of(m));
}

void MetricsRecorder::add(const SourceMetrics& m) {
  if (options_.owned()) append(m.step, to_json_line(m), scalars_of(m));
}

void MetricsRecorder::add(const ValidationMetrics& m) {
  if (options_.owned()) append(m.step, to_json_line(m), scalars_of(m));
}

void MetricsRecorder::add(int64_t step, const TaskMetrics& m) {
  if (options_.owned()) append(step, to_json_line(step, m), scalars_of(m));
}

}  // namespace tessera::train

// Computes the rates that the log shows. FLOPs are those of the model (6 N plus attention), without
// recomputation, as for MFU.
#include "train/step_figures.h"

#include <algorithm>
#include <numeric>

#include "compile/compile.h"
#include "train/run_device.h"
#include "train/run_programs.h"

namespace tessera::train {

void StepFigures::measure(const config::RunConfig& config, runtime::PreparedKernels& kernels,
                          int64_t ranks, const std::function<double()>& now_s) {
  const DType type = config.precision == compile::Precision::kBf16 ||
                             config.precision == compile::Precision::kBf16Sr
                         ? DType::kBF16
                         : DType::kF32;  // f16 is computed in f32
  // Per sequence; the batch-size warm-up gives the number of sequences per step.
  sequence_flops_ =
      compile::model_flops(config::compile_request(config, compile::ProgramKind::kTrain)) /
      static_cast<double>(config.batch.micro * ranks);
  if (kernels.backend().has_streams()) {
    matrix_rate_ = kernels.backend().matrix_rate(type, now_s);
    return;
  }
  try {
    matrix_rate_ = kernels.backend().matrix_rate(type, now_s);
  } catch (const Error& e) {  // no memory is left for it
    rate_error_ = e.what();
  }
}

void StepFigures::add(StepMetrics& m, double tokens, int64_t sequences) {
  m.tokens_per_s = tokens / m.step_s;
  m.model_flops_per_s = sequence_flops_ * static_cast<double>(sequences) / m.step_s;
  // Other processes may have slowed the measurement, so a step may exceed the measured rate.
  matrix_rate_ = std::max(matrix_rate_, m.model_flops_per_s);
  m.model_flops_share = m.model_flops_per_s / matrix_rate_;
  if (m.communication) exposed_share_ = m.communication->exposed_s / m.step_s;
  seconds_.push_back(m.step_s);
  // The mean over 20 steps smooths the time left.
  if (seconds_.size() > 20) seconds_.pop_front();
}

ProgressState StepFigures::progress(const StepMetrics& m, double tokens, int64_t last_step) const {
  const double mean =
      std::accumulate(seconds_.begin(), seconds_.end(), 0.0) / static_cast<double>(seconds_.size());
  ProgressState p = progress_of(m, tokens, mean, matrix_rate_);
  p.steps = last_step;
  p.exposed_share = exposed_share_;
  p.left_s = mean * static_cast<double>(last_step - m.step);
  return p;
}

}  // namespace tessera::train

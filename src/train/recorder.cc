#include "train/recorder.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "base/error.h"

namespace tessera {
namespace {

// The share that the latest step has in the mean step time: the last twenty or so count.
constexpr double kLatestShare = 0.1;

Path prepared(const RecorderOptions& o) {
  std::error_code failed;
  std::filesystem::create_directories(o.directory, failed);
  if (failed) {
    throw Error("{}: the run's directory cannot be made: {}", o.directory.string(),
                failed.message());
  }
  Path path = o.directory / "metrics.jsonl";
  cut_back(path, o.done_steps);
  return path;
}

}  // namespace

Recorder::Recorder(const RecorderOptions& options, Now now)
    : options_(options), metrics_(prepared(options)), progress_(options.output) {
  CHECK(options.every_steps >= 1, "a line every {} steps", options.every_steps);
  if (options.tensorboard) {
    tensorboard_ = std::make_unique<TensorBoardFile>(options.directory / "tensorboard",
                                                     options.done_steps + 1, now.wall_s);
  }
}

void Recorder::step(const StepMetrics& m, double flops_per_s, Now now) {
  const bool first = m.step == options_.done_steps + 1, last = m.step == options_.steps;
  mean_step_s_ = first ? m.step_s : mean_step_s_ + kLatestShare * (m.step_s - mean_step_s_);
  if (first || last || m.step % options_.every_steps == 0) {
    metrics_.append(m);
    if (tensorboard_) {
      const std::array<TensorBoardFile::Scalar, 6> scalars = {
          {{"train/loss", m.loss},
           {"train/grad_norm", m.grad_norm},
           {"train/learning_rate", m.learning_rate},
           {"speed/step_s", m.step_s},
           {"speed/tokens_per_s", m.tokens_per_s},
           {"speed/model_flops_share", m.model_flops_share}}};
      tensorboard_->add(m.step, now.wall_s, scalars);
    }
  }
  progress_.show({.step = m.step,
                  .steps = options_.steps,
                  .loss = m.loss,
                  .grad_norm = m.grad_norm,
                  .learning_rate = m.learning_rate,
                  .tokens_per_s = m.tokens_per_s,
                  .flops_per_s = flops_per_s,
                  .matrix_rate_share = m.model_flops_share,
                  .memory_bytes = resident_bytes(),
                  .left_s = mean_step_s_ * static_cast<double>(options_.steps - m.step)},
                 now.steady_s);
}

void Recorder::validation(const ValidationMetrics& m, Now now) {
  metrics_.append(m);
  if (tensorboard_) {
    const std::string loss = fmt::format("validation/{}_loss", m.name);
    const std::string bits = fmt::format("validation/{}_bits_per_byte", m.name);
    const std::array<TensorBoardFile::Scalar, 2> scalars = {
        {{loss, m.validation_loss}, {bits, m.bits_per_byte}}};
    tensorboard_->add(m.step, now.wall_s, scalars);
  }
  progress_.print(fmt::format("step {} validation {} {:.3f} ({:.3f} bits/byte)",
                              format_count(m.step), m.name, m.validation_loss, m.bits_per_byte));
}

}  // namespace tessera

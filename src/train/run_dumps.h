// The debugging output of a run: run.dump_gradients and run.dump_values.
#pragma once

#include <functional>
#include <optional>

#include "comm/world.h"
#include "train/trainer.h"
#include "train/value_record.h"

namespace tessera::train {

class RunDumps {
 public:
  // Throws Error, before the run starts, if the requested files cannot be written.
  RunDumps(const config::RunConfig& config, comm::World& world);

  void begin(Trainer& trainer);  // call it once, when the trainer exists
  bool values() const { return recorder_.has_value(); }
  std::function<void(const runtime::OpEvent&)> observer(int64_t step) {
    return recorder_->observer(step);
  }
  // Call it after each step, before the next one. The first one writes the gradients.
  void after_step(Trainer& trainer, bool is_first);
  void finish() const;  // writes the values of all steps

 private:
  const config::RunConfig& config_;
  comm::World& world_;
  std::optional<ValueRecorder> recorder_;
};

}  // namespace tessera::train

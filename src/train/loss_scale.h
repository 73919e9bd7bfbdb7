// The dynamic loss scale of fp16 (Micikevicius et al. 2018), with the rule of Megatron and
// DeepSpeed. A step that overflows is skipped. The `hysteresis`-th overflow and each one after it
// halve the scale. `window` steps without an overflow double the scale and restore the hysteresis.
#pragma once

#include <cstdint>

#include "base/tree.h"
#include "config/run_config.h"

namespace tessera::train {

class LossScale {
 public:
  explicit LossScale(const config::LossScaleSection& rule)
      : rule_(rule), scale_(rule.initial), patience_(rule.hysteresis) {}

  double scale() const { return scale_; }
  int64_t skipped() const { return skipped_; }  // number of skipped steps of the run
  double min() const { return rule_.min; }      // the smallest scale

  // Adjusts the scale after a step with a finite loss. `finite`: its gradients are finite. Returns
  // false if the step overflowed at the smallest scale, so that no scale can help. At most
  // hysteresis + log2(initial / min) consecutive steps can overflow before that.
  bool update(bool finite);

  // Return and read the state for a checkpoint. A member that is missing there keeps its value.
  Tree state() const;
  void restore(const Tree& state);

 private:
  config::LossScaleSection rule_;
  double scale_;
  int64_t good_ = 0;  // steps since the last overflow or doubling
  int64_t patience_;  // overflows left before the scale is halved
  int64_t skipped_ = 0;
};

}  // namespace tessera::train

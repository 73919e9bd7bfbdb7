// The dynamic loss scale of fp16 (Micikevicius et al. 2018), by the rule of Megatron and DeepSpeed:
// a step that overflows changes nothing and, once `hysteresis` of them are in a row of windows,
// halves the scale; `window` steps without one double it and restore the patience.
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
  int64_t skipped() const { return skipped_; }  // steps of the run
  double min() const { return rule_.min; }

  // After a step with a finite loss. Returns false if it overflowed at the smallest scale, so no
  // scale helps. At most hysteresis + log2(initial / min) steps in a row can overflow before
  // that.
  bool update(bool finite);

  // What a checkpoint keeps of it; from one without, it stays as it is.
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

#include "config/optimizer_section.h"

namespace tessera {

OptimizerSection optimizer_defaults(OptimizerKind kind) {
  OptimizerSection o;
  o.kind = kind;
  if (kind == OptimizerKind::kLion) o.beta2 = 0.99;
  if (kind == OptimizerKind::kSgd) o.weight_decay = 0;
  if (kind == OptimizerKind::kAdafactor) {
    o.beta1 = o.weight_decay = o.clip_norm = 0;
    o.epsilon = 1e-30;
  }
  return o;
}

void check(const LoraSection& lora, KeyErrors& errors) {
  if (!lora.targets.empty() && lora.rank == 0)
    errors.add("lora.targets",
               "are given, but lora.rank is 0. Set lora.rank, such as 16, or for no adapters "
               "lora.targets=[]");
}

void check(const LossScaleSection& scale, KeyErrors& errors) {
  if (scale.initial < scale.least)
    errors.add("loss_scale.initial", "= {}, expected loss_scale.least = {} or more", scale.initial,
               scale.least);
}

}  // namespace tessera

#include "config/optimizer_section.h"

namespace tessera {

OptimizerSection optimizer_defaults(OptimizerKind kind) {
  OptimizerSection o;
  o.kind = kind;
  const OptimizerTraits& traits = traits_of(kind);
  o.beta1 = traits.beta1;
  o.beta2 = traits.beta2;
  o.epsilon = traits.epsilon;
  o.weight_decay = traits.weight_decay;
  o.clip_norm = traits.clip_norm;
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

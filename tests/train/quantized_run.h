// A tiny model with adapters whose linear layers can be stored in 4 bits: their inputs are
// multiples of 64.
#pragma once

#include "tests/train/tiny_run.h"

namespace tessera::train {

inline std::vector<model::Family> quantizable_families() {
  std::vector<model::Family> all;
  for (const model::Family f : every_family())
    // The ranks of latent attention in tests are no multiples of 64.
    if (f != model::Family::kDeepseekV2 && f != model::Family::kDeepseekV3) all.push_back(f);
  return all;
}

inline config::RunConfig quantized(model::Family family) {
  config::RunConfig c = tiny(family);
  c.model.hidden = 128;
  c.model.heads = 4;
  c.model.head_width = 0;
  c.model.feed_forward = 256;
  if (c.model.experts > 0) c.model.expert_feed_forward = 32;
  model::derive_sizes(c.model);
  c.lora.rank = 4;
  c.lora.quantize = compile::Quantization::kNf4;
  return c;
}

}  // namespace tessera::train

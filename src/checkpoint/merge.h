// Adapters added into the weights beside which they were trained: W + alpha / rank · B A.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"

namespace tessera {

constexpr const char* kAdapterA = ".lora_a";  // behind the weight's name without ".weight"
constexpr const char* kAdapterB = ".lora_b";

// Whether a checkpoint holds adapters, which a model without them would leave out.
bool has_adapters(const CheckpointReader& checkpoint);

struct Merged {
  int64_t adapters = 0, tensors = 0, parameters = 0;
};

// Writes to `out` a checkpoint of plain weights, in f32, without the optimizer's state. Rank and
// alpha are those of the run, in the checkpoint's header. Throws Error where there are no adapters,
// their shapes do not fit, or `out` exists.
Merged merge_adapters(const Path& checkpoint, const Path& out, const std::string& version);

}  // namespace tessera

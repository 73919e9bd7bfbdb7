// The option --device of verbs that have no run file.
#pragma once

#include <optional>
#include <string>

#include "comm/world.h"
#include "tensor/gpu.h"

namespace tessera {

// auto, cpu or cuda; the ranks of a host take different devices. Nothing: the CPU. Throws
// UsageError for any other word, Error where cuda was asked for and is not there.
std::optional<GpuFeatures> gpu_named(const std::string& word, const World& world);

}  // namespace tessera

// A run's layout for people.
#pragma once

#include <string>

#include "config/run_config.h"

namespace tessera {

// "layout    4 ranks = data 2 × tensor 2 · 1 thread each · ZeRO 1 · recompute none".
std::string layout_line(const RunConfig& config);

}  // namespace tessera

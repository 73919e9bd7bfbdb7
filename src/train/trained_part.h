// Which weights a run trains: all, adapters alone, or those that it does not freeze.
#pragma once

#include <string>
#include <string_view>

#include "config/run_config.h"

namespace tessera {

// Whether the run trains the weight with this full name.
bool trains(const RunConfig& config, std::string_view weight);

// "trains    0.03 of 0.71 M parameters (LoRA of rank 8)", of numbers of elements.
std::string trained_line(const RunConfig& config, double trained, double all);

}  // namespace tessera

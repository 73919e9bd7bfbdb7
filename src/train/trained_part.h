// Determines which weights a run trains (all of them, only adapters, or those that are not frozen),
// and with which optimizer.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/run_config.h"

namespace tessera::train {

// Returns true if the run trains the weight with this full name.
bool trains(const config::RunConfig& config, std::string_view weight);

// Returns the number (from 1) of the group in optimizer.groups that has the weight with this full
// name, or 0 if no group has it.
size_t optimizer_number(const config::RunConfig& config, std::string_view weight);
// Returns the settings of the optimizer that updates the weight with this full name, with the
// learning rate of its group.
config::OptimizerSection optimizer_of(const config::RunConfig& config, std::string_view weight);

// Returns "trains    0.03 of 0.71 M parameters (LoRA of rank 8)". Arguments are numbers of
// elements.
std::string trained_line(const config::RunConfig& config, double trained, double all);
// Returns "optimizer adamw (0.68 M parameters), group 1 sgd (0.03 M)". `elements` are numbers of
// elements, indexed by optimizer_number().
std::string optimizer_line(const config::RunConfig& config, std::span<const double> elements);

}  // namespace tessera::train

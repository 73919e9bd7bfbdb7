// Which weights a run trains (all, adapters alone, or those that it does not freeze) and by which
// optimizer.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/run_config.h"

namespace tessera::train {

// Whether the run trains the weight with this full name.
bool trains(const config::RunConfig& config, std::string_view weight);

// The number of the group of optimizer.groups that the weight with this full name is in, from 1; 0:
// none.
size_t optimizer_number(const config::RunConfig& config, std::string_view weight);
// The settings of the optimizer that updates the weight with this full name; its learning rate is
// that of its group.
config::OptimizerSection optimizer_of(const config::RunConfig& config, std::string_view weight);

// "trains    0.03 of 0.71 M parameters (LoRA of rank 8)", of numbers of elements.
std::string trained_line(const config::RunConfig& config, double trained, double all);
// "optimizer adamw (0.68 M parameters), group 1 sgd (0.03 M)", of numbers of elements by
// optimizer_number().
std::string optimizer_line(const config::RunConfig& config, std::span<const double> elements);

}  // namespace tessera::train

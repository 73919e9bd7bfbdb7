// The coordinate check of maximal update parametrization (Yang et al. 2022, appendix D.1): models
// of several widths train for a few steps, and the change of their activations is compared. With
// mup it does not depend on the width; with standard parametrization and Adam it grows with it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/run_config.h"

namespace tessera::measure {

// The mean absolute change of the activations of a kind, over all layers: by the name of the op
// that computes them, such as "layer.attn.qkv".
using ActivationChange = std::map<std::string, double>;

// Returns keys for a run whose model is `hidden` wide. Other widths of the model grow by the same
// factor, and the widths of heads stay. Throws Error if one of them is then not an integer.
std::vector<std::string> keys_of_width(const model::ModelConfig& model, int64_t hidden);

// Trains `steps` steps from the initial weights on one rank, with the peak learning rate, all on
// the first batch of the run, and returns the change of the activations of its first micro-batch.
// Does not write files.
ActivationChange change_of_activations(config::RunConfig config, int64_t steps);

// Returns the exponent p of the power law y ~ xᵖ that fits best: the slope of log y over log x by
// least squares. All numbers must be positive, and two of x must differ.
double growth_exponent(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace tessera::measure

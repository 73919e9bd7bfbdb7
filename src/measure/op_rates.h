// Measures the rates of the ops of a training step. Small models are trained for a few steps, and
// each op is timed in place, with the cache contents that the ops before it leave. All ranks
// measure at the same time and without communication, so that they share the memory bandwidth as in
// a run.
#pragma once

#include <vector>

#include "comm/world.h"
#include "config/run_config.h"
#include "plan/hardware.h"
#include "tensor/cpu_features.h"

namespace tessera::measure {

// Rates are means over the ranks, each for one rank with its threads. kernel_s is the fixed time
// per op in seconds: the mean time per op in a step with tiny sizes.
struct StepRates {
  std::vector<plan::MeasuredProduct> products;
  plan::OpRates op_bytes_per_s, op_flops_per_s;
  double kernel_s = 0;
};

// How long to measure: a few seconds, half a minute, or as long as stable results need.
enum class Depth { kRough, kQuick, kFull };

// Returns the models that are trained to measure ops of `type`: families that together contain all
// ops, in two sizes; only one small model for kRough. Their widths and lengths differ from those of
// models that people train.
std::vector<config::RunConfig> probe_models(DType type, Depth depth);

// Trains the probe models and returns the rates, with the median time of each op over a few steps.
// Collective: all ranks must call it.
StepRates measure_steps(comm::World& world, const CpuFeatures& cpu, int threads, Depth depth);

}  // namespace tessera::measure

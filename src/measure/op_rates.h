// What a training step is made of, measured as it runs: small models are trained for some steps,
// and every op is timed where it stands, with what its neighbours left in the caches. All ranks of
// the world do so at the same time, each alone, so that they share the memory as those of a run do.
#pragma once

#include <vector>

#include "comm/world.h"
#include "config/run_config.h"
#include "plan/hardware.h"
#include "tensor/cpu_features.h"

namespace tessera::measure {

// Rates are means over the ranks; they hold for one rank with so many threads. kernel_s is what an
// op takes beside its bytes: the mean of a step whose sizes are tiny.
struct StepRates {
  std::vector<plan::MeasuredProduct> products;
  plan::OpRates op_bytes_per_s, op_flops_per_s;
  double kernel_s = 0;
};

// How long is measured: a file in some seconds, in half a minute, or as steadily as can be.
enum class Depth { kRough, kQuick, kFull };

// The models: two families with all their ops, two sizes, f32 and bf16; roughly, one that is small.
// Their widths and lengths are none that people train.
std::vector<config::RunConfig> probe_models(DType type, Depth depth);

// Each op's median over some steps of them. Collective.
StepRates measure_steps(comm::World& world, const CpuFeatures& cpu, int threads, Depth depth);

}  // namespace tessera::measure

// The result of simulate(): time, memory, operations and cost of a step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_array.h"
#include "base/real.h"
#include "compile/memory/memory_plan.h"
#include "ir/op.h"

namespace tessera::plan {

// Kinds of communication, by the mesh axis that a message or collective runs over. kTensor includes
// the gathers of keys over kContext, and reductions over it of the one data-parallel rank. kHost:
// copies to and from host memory.
enum class TrafficKind : uint8_t { kTensor, kData, kPipeline, kWorld, kHost };
constexpr size_t count_of(TrafficKind) { return static_cast<size_t>(TrafficKind::kHost) + 1; }
std::string_view name_of(TrafficKind t);  // "tensor", "data", "pipeline", "world", "host"

// Breakdown of the time of a device; the parts add up to the step.
template <class T>
struct TimeBreakdown {
  EnumArray<OpKind, T> compute;       // forward and backward, by op kind
  T recomputation = 0;                // repeated forward work
  T optimizer = 0;                    // squares, clip, update
  EnumArray<TrafficKind, T> exposed;  // communication that does not overlap computation
  T bubble = 0;                       // waiting for another stage's computation
  T host = 0;                         // waiting for kernel launches

  // Calls f(own part, other's part) for each part.
  template <class U, class F>
  void with(const TimeBreakdown<U>& o, const F& f) {
    for (const OpKind k : Enumerators<OpKind>()) f(compute[k], o.compute[k]);
    for (const TrafficKind t : Enumerators<TrafficKind>()) f(exposed[t], o.exposed[t]);
    f(recomputation, o.recomputation);
    f(optimizer, o.optimizer);
    f(bubble, o.bubble);
    f(host, o.host);
  }
  void operator+=(const TimeBreakdown& o) {
    with(o, [](T& mine, T others) { mine += others; });
  }
};

// A breakdown in seconds.
struct TimeParts : TimeBreakdown<double> {
  double matrix() const;     // GEMMs, including those of the fused head and loss
  double attention() const;  // fused or unfused
  double computing() const;  // all of `compute`
  double exposed_s() const;
  double sum() const;
  void operator*=(double share);
};

// Time and memory of one optimizer of the run: that of the weights outside of all groups, or of one
// of optimizer.groups.
struct OptimizerPart {
  int64_t group = 0;      // Value::policy of its weights; adamw_of() a group: what Muon leaves
  std::string_view rule;  // the name of its update op: "adamw"
  int64_t bytes = 0;      // master weights, moments and factors on one rank
  double seconds = 0;     // squares, factors and update
};

// The prediction for each rank of one stage.
struct StagePrediction {
  TimeParts parts;
  std::vector<OptimizerPart> optimizers;  // divide parts.optimizer and memory.optimizer
  compile::MemoryPlan memory;             // from the program: exact
  int64_t peak_bytes = 0;                 // the arena and the memory outside it
};

struct Prediction {
  double step_s = 0;
  TimeParts parts;  // mean over all devices
  std::vector<StagePrediction> stages;
  int64_t fullest_stage = 0;  // the stage with the largest peak_bytes

  int64_t devices = 0, tokens = 0;  // tokens: per step
  // Operations per step on all devices.
  //   model     without recomputation and without masked query-key pairs (as model_flops_share in
  //             the training log)
  //   hardware  everything that runs
  //   square    as model, but with all query-key pairs (Narayanan et al. 2021, the Megatron tables)
  //   counter   the formula of the Frontier paper (k = 4 with recomputation, else 3),
  //             24 k B s L h^2 (1 + s/6h) + 6 B s h V: layers count k times, the head three times
  double model_flops = 0, hardware_flops = 0, square_flops = 0, counter_flops = 0;
  double peak_flops_per_s = 0;  // specified rate of one device for the dtype of the weights
  DType peak_dtype = DType::kF32;

  double mfu() const { return share(model_flops); }
  double hfu() const { return share(hardware_flops); }
  // Returns the rate of `flops` operations per step as a share of the devices' specified rate.
  double share(double flops) const;
  double tokens_per_s() const { return ratio(tokens, step_s); }
  double bubble() const { return parts.bubble / step_s; }
  const StagePrediction& fullest() const { return stages[fullest_stage]; }
  // Returns the host memory per rank with layout.offload, for the stage that needs most.
  int64_t host_bytes() const {
    int64_t most = 0;
    for (const StagePrediction& s : stages) most = std::max(most, s.memory.host);
    return most;
  }

  double usd_per_device_hour = 0;  // 0: not known
  double usd_per_million_tokens() const;
  double days(double token_budget) const { return token_budget / tokens_per_s() / 86400; }
  double usd(double token_budget) const { return usd_per_million_tokens() * token_budget / 1e6; }
};

}  // namespace tessera::plan

// What a step costs, as simulate() finds it.
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

// Who waits for whom: the axis that a message or collective runs over.
// kHost: copies to and from the host's memory.
enum class Traffic : uint8_t { kTensor, kData, kPipeline, kWorld, kHost };
constexpr size_t count_of(Traffic) { return static_cast<size_t>(Traffic::kHost) + 1; }
std::string_view name_of(Traffic t);  // "tensor", "data", "pipeline", "world", "host"

// Where the time of a device goes; the parts add up to the step.
template <class T>
struct PartsOf {
  EnumArray<OpKind, T> compute;   // forward and backward, by op kind
  T recomputation = 0;            // forward work that is done again
  T optimizer = 0;                // squares, clip, update
  EnumArray<Traffic, T> exposed;  // communication that no computation hides
  T bubble = 0;                   // waiting for another stage's computation
  T host = 0;                     // the device waits for launches

  // Calls f(own, other's) for each part.
  template <class U, class F>
  void with(const PartsOf<U>& o, const F& f) {
    for (const OpKind k : Enumerators<OpKind>()) f(compute[k], o.compute[k]);
    for (const Traffic t : Enumerators<Traffic>()) f(exposed[t], o.exposed[t]);
    f(recomputation, o.recomputation);
    f(optimizer, o.optimizer);
    f(bubble, o.bubble);
    f(host, o.host);
  }
  void operator+=(const PartsOf& o) {
    with(o, [](T& mine, T others) { mine += others; });
  }
};

// In seconds.
struct TimeParts : PartsOf<double> {
  double matrix() const;     // products, the head's loss among them
  double attention() const;  // fused, or its parts
  double computing() const;  // all of `compute`
  double exposed_s() const;
  double sum() const;
  void operator*=(double share);
};

// What one optimizer of the run takes: that of the weights in no group, or in one of
// optimizer.groups.
struct OptimizerPart {
  int64_t group = 0;      // Value::policy of its weights
  std::string_view rule;  // the name of its update op: "adamw"
  int64_t bytes = 0;      // of masters, moments and factors on one rank
  double seconds = 0;     // squares, factors and update
};

// Of each rank of one stage.
struct StagePrediction {
  TimeParts parts;
  std::vector<OptimizerPart> optimizers;  // of parts.optimizer and memory.optimizer
  compile::MemoryPlan memory;             // from the program: exact
  int64_t peak_bytes = 0;                 // the arena and what stands outside it
};

struct Prediction {
  double step_s = 0;
  TimeParts parts;  // mean over all devices
  std::vector<StagePrediction> stages;
  int64_t fullest_stage = 0;  // which needs most memory

  int64_t devices = 0, tokens = 0;  // of a step
  // Operations of a step, all devices. model: without recomputation, masked pairs of attention not
  // counted (as train's model_flops_share). hardware: all that runs.
  // square: model, with the whole square of attention (Narayanan et al. 2021, the Megatron tables).
  // counter: what the Frontier paper's counter says (k = 4 with recomputation, else 3):
  //   24 k B s L h^2 (1 + s/6h) + 6 B s h V: its layers run k times, its head three times.
  double model_flops = 0, hardware_flops = 0, square_flops = 0, counter_flops = 0;
  double peak_flops_per_s = 0;  // of one device, for the dtype of the weights
  DType peak_dtype = DType::kF32;

  double mfu() const { return share(model_flops); }
  double hfu() const { return share(hardware_flops); }
  // Of the devices' specified rate.
  double share(double flops) const;
  double tokens_per_s() const { return ratio(tokens, step_s); }
  double bubble() const { return parts.bubble / step_s; }
  const StagePrediction& fullest() const { return stages[fullest_stage]; }
  // Of the host's memory, with layout.offload: the most that a rank of any stage needs.
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

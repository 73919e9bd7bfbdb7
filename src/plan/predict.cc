// Predicts a request by compiling and simulating all its stages, and searches for the minimum
// number of devices for a model: powers of two first, then eighths between the last power that is
// too small and the first that suffices. The search computes memory only, for the four stages that
// can be the fullest.
#include "plan/predict.h"

#include <algorithm>
#include <set>
#include <vector>

#include "compile/compile.h"
#include "ir/communicators.h"
#include "model/presets.h"
#include "plan/op_time.h"
#include "plan/simulate.h"

namespace tessera::plan {
namespace {

// Returns the bytes of the fullest stage. Candidates: the first and the last stage, which have the
// embedding and the head (the first also has the most micro-batches in flight), and stages between
// them, which may have one layer more.
int64_t peak_of(compile::CompileRequest r, const Software& software, const Target& target,
                const Hardware& h) {
  int64_t most = 0;
  const int64_t last = r.layout.pipeline - 1;
  for (const int64_t stage : std::set<int64_t>{0, std::min<int64_t>(1, last), last / 2, last}) {
    r.stage = stage;
    const Program p = compile::compile(as_compiled_by(software, r), target);
    most = std::max(most, p.bytes + outside_bytes(h.device, communicator_count(p)));
  }
  return most;
}

// Returns true if the weights alone fit on the devices: a necessary condition that needs no
// compilation.
bool holds_weights(int64_t devices, const compile::CompileRequest& r, const Hardware& h) {
  const double bytes = r.precision == compile::Precision::kFp32 ? 4 : 2;
  return bytes * static_cast<double>(model::parameter_count(r.model)) <=
         usable_bytes(h.device) * static_cast<double>(devices);
}

// Tries every division of the model over `devices` into tensor ranks within a node and stages.
std::optional<LeastDevices> fit_on(int64_t devices, const compile::CompileRequest& request,
                                   const Hardware& hardware, const Software& software,
                                   const Target& target) {
  std::optional<LeastDevices> best;
  if (!holds_weights(devices, request, hardware)) return best;
  for (int64_t t = 1; t <= std::min(devices, hardware.node.devices); t *= 2) {
    if (devices % t != 0 || devices / t > request.model.layers) continue;
    compile::CompileRequest r = request;
    r.layout = {};
    r.layout.tensor = t;
    r.layout.pipeline = devices / t;
    r.layout.recompute = "full";
    r.sequences = 1;
    r.microbatches = r.layout.pipeline;  // the maximum in flight
    try {
      const int64_t peak = peak_of(r, software, target, hardware);
      if (static_cast<double>(peak) <= usable_bytes(hardware.device) &&
          (!best || peak < best->peak_bytes))
        best = LeastDevices{devices, t, r.layout.pipeline, peak};
    } catch (const Error&) {  // not a layout of this model
    }
  }
  return best;
}

}  // namespace

void add_smaller_steps(Prediction& p, const compile::CompileRequest& request,
                       const Hardware& hardware, const Target& target) {
  for (const compile::CompileRequest& smaller : compile::smaller_steps(request)) {
    const std::vector<Program> programs = compile::compile_stages(smaller, target);
    for (size_t s = 0; s < programs.size(); ++s)
      set_memory(p.stages[s],
                 compile::larger_of(p.stages[s].memory, compile::memory_plan(programs[s])),
                 hardware.device);
  }
  const auto fullest = std::ranges::max_element(p.stages, {}, &StagePrediction::peak_bytes);
  p.fullest_stage = fullest - p.stages.begin();
}

Prediction predict(const compile::CompileRequest& request, const Hardware& hardware,
                   const Software& software, const Target& target) {
  const compile::CompileRequest compiled = as_compiled_by(software, request);
  Prediction p = simulate(compile::compile_stages(compiled, target), hardware, software);
  add_smaller_steps(p, compiled, hardware, target);
  return p;
}

std::optional<LeastDevices> least_devices(const compile::CompileRequest& request,
                                          const Hardware& hardware, const Software& software,
                                          const Target& target) {
  const int64_t most = hardware.node.devices * request.model.layers;
  std::optional<LeastDevices> found;
  int64_t enough = 1;
  for (; enough <= most && !found; enough *= 2)
    found = fit_on(enough, request, hardware, software, target);
  if (!found) return found;
  // Continues in eighths between the last power of two that is too small and the first that
  // suffices.
  const int64_t top = enough / 2, step = std::max<int64_t>(top / 16, 1);
  for (int64_t n = top / 2 + step; n < top; n += step)
    if (auto fewer = fit_on(n, request, hardware, software, target)) return fewer;
  return found;
}

namespace {

// Returns the workspace that adapters of experts need: the sums W + s B A, and their gradients.
int64_t bytes_of_adapted(const Op& op, ValueSpan values) {
  const ExpertsGrad* const gradient = op.if_as<ExpertsGrad>();
  const ExpertAdapters& adapters = gradient ? gradient->adapters : op.as<Experts>().adapters;
  const bool trained = gradient && !gradient->frozen;
  int64_t bytes = 0;
  const auto add = [&](bool adapted, ValueId w) {
    const Value& v = values[w];
    if (adapted)
      bytes += v.shape.elements() * (size_of(v.dtype) + (trained ? size_of(DType::kF32) : 0));
  };
  add(adapters.up, op.inputs[Experts::kUp]);
  add(adapters.down, op.inputs[Experts::kDown]);
  return bytes;
}

// Returns the bytes of the f32 sums of the tokens, of the rows that are processed at once, and of
// adapters.
int64_t workspace_of_experts(const Op& op, ValueSpan values) {
  const Value &x = values[op.inputs[0]], &choice = values[op.inputs[1]];
  const Shape& up = values[op.inputs[3]].shape;
  const int64_t f32 = size_of(DType::kF32), type = size_of(x.dtype), tile = 64;
  const int64_t sums = type == f32 ? 0 : x.shape.elements() * f32;
  const int64_t row = 4 * up[1] * type + up[3] * f32;  // pairs, h, dh, out
  const int64_t rows = choice.shape.elements() + (tile - 1) * up[0];
  return sums + std::min(rows * row, std::max(kExpertsBytes, tile * row)) +
         bytes_of_adapted(op, values);
}

int64_t workspace(const Op& op, ValueSpan values) {
  if (is_staged(op)) return staged_bytes(op, values);
  if (rule_of(op).prepared == Prepared::kExperts) return workspace_of_experts(op, values);
  if (rule_of(op).prepared != Prepared::kHead) return 0;
  const Value &x = values[op.inputs[0]], &w = values[op.inputs[1]];
  const int64_t tokens = x.shape.elements() / w.shape[-1];
  return std::min(tokens, kHeadChunk) * w.shape[0] * (size_of(DType::kF32) + size_of(w.dtype));
}

}  // namespace

Target cluster_target() {
  Target t;
  t.alignment = 256;           // bytes: suits device allocators and vector loads
  t.ordered_transfers = true;  // as NCCL and similar libraries order them
  t.workspace_bytes = workspace;
  return t;
}

}  // namespace tessera::plan

// Finds the least number of layers to recompute or offload so that a run fits, by bisection. Each
// probe compiles the program of every stage, so the memory is exact.
#include "plan/sparing.h"

#include "compile/blocks.h"

namespace tessera {
namespace {

struct Knob {
  std::string Layout::*value;
  const char* name;
  const char* all;  // of the layers; with ":N" the first N of each stage
};
constexpr Knob kRecompute = {&Layout::recompute, "recompute", "full"};
constexpr Knob kOffload = {&Layout::offload, "offload", "activations"};

bool fits(const CompileRequest& r, const Hardware& h, const Software& s, const Target& target) {
  const Blocks blocks = compile_blocks(as_compiled_by(s, r), target);
  for (int64_t stage = 0; stage < r.layout.pipeline; ++stage) {
    const Program p = program_of(blocks, stage);
    if (!has_room(h.device, memory_need(p))) return false;
  }
  return true;
}

// Returns the layers of the stage that has most.
int64_t layers_of_stage(const CompileRequest& r) {
  const int64_t stages = r.layout.pipeline;
  return (r.model.all_layers() + stages - 1) / stages;
}

Neighbour with(const Neighbour& run, const Knob& knob, const std::string& value) {
  Neighbour n = run;
  n.request.layout.*knob.value = value;
  n.keys += fmt::format("{}layout.{}={}", run.keys.empty() ? "" : " ", knob.name, value);
  return n;
}

Neighbour with(const Neighbour& run, const Knob& knob, int64_t layers) {
  const bool all = layers == layers_of_stage(run.request);
  return with(run, knob, all ? std::string(knob.all) : fmt::format("{}:{}", knob.all, layers));
}

}  // namespace

std::vector<Neighbour> sparing(const Neighbour& run, const Hardware& hardware,
                               const Software& software, const Target& target) {
  const auto holds = [&](const Neighbour& n) {
    return fits(n.request, hardware, software, target);
  };
  std::vector<Neighbour> found;
  if (holds(run)) return found;
  const bool offloads =
      run.request.layout.offload == "none" && hardware.device.host_bytes_per_s > 0;
  std::vector<Knob> knobs;
  if (!run.request.layout.recompute.starts_with(kRecompute.all)) knobs.push_back(kRecompute);
  if (offloads) knobs.push_back(kOffload);
  for (const Knob& knob : knobs) {
    int64_t too_few = 0, enough = layers_of_stage(run.request);
    if (!holds(with(run, knob, enough))) continue;
    while (enough - too_few > 1) {
      const int64_t layers = (too_few + enough) / 2;
      (holds(with(run, knob, layers)) ? enough : too_few) = layers;
    }
    found.push_back(with(run, knob, enough));
  }
  for (const std::string value : {"optimizer", "activations+optimizer"}) {
    const Neighbour n = with(run, kOffload, value);
    if (!offloads || !holds(n)) continue;
    found.push_back(n);
    break;
  }
  return found;
}

}  // namespace tessera

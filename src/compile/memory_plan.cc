#include "compile/memory_plan.h"

namespace tessera {

MemoryPlan memory_plan(const Program& p) {
  MemoryPlan m;
  for (const Frame& f : p.frames) {
    const FrameKind& kind = p.kind(f.kind);
    const Role role = p[kind.values.at(0)].role;
    if (role == Role::kWeight) m.weights += kind.bytes;
    if (role == Role::kMaster || role == Role::kMoment1 || role == Role::kMoment2)
      m.optimizer += kind.bytes;
    if (role == Role::kGradient) m.gradients += kind.bytes;
  }
  m.arena = p.bytes;
  m.live = p.live_bytes;
  m.other = p.state_bytes - m.weights - m.optimizer;
  m.activations = p.bytes - p.state_bytes - m.gradients;
  return m;
}

}  // namespace tessera

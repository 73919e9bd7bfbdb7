// Finds the buffer kinds of a group of weights, and the rank that represents a replica.
#include "ir/state/weight_tables.h"

namespace tessera {
BufferKindId flat_kind(const Program& p, BufferKindId weights, Role role, bool divided) {
  BufferKindId found = kNone;
  for (const BufferKindId k : p.kinds.ids()) {
    const BufferKind& kind = p.kinds[k];
    if (kind.like != weights || kind.values.empty()) continue;
    const Value& v = p[kind.values[0]];
    if (v.role != role || (v.sharding.place[AxisKind::kShard] == 0) != divided) continue;
    if (kind.host) return k;
    if (found == kNone) found = k;
  }
  return found;
}

BufferKindId factors_of(const Program& p, BufferKindId weights) {
  for (const BufferKindId k : p.kinds.ids())
    if (p.kinds[k].factors_of == weights) return k;
  return kNone;
}

// Returns true for the first of the ranks that hold the same elements of a weight: coordinate 0 on
// every axis that does not divide it.
bool stands_in_stage(const Value& w, const Coordinates& at) {
  for (const AxisKind a : Enumerators<AxisKind>()) {
    if (divides_state(a) || a == AxisKind::kPipeline) continue;
    if (w.sharding.place[a] < 0 && at[a] != 0) return false;
  }
  return true;
}

bool is_first_stage(const Program& p, const BufferKind& kind) {
  return kind.stages.empty() || kind.stages[0] == p.stage;
}

bool stands_for(const Program& p, const BufferKind& weights, const Value& w,
                const Coordinates& at) {
  return is_first_stage(p, weights) && stands_in_stage(w, at);
}

}  // namespace tessera

// Enumerates the state of a rank as boxes of named tensors, which checkpoints save and load. For
// each weight there are the weight itself (or its f32 master), its moments and means, and
// Adafactor's factors. If several ranks hold the same elements, one of them owns the box and saves
// it; all of them load it.
#include "ir/state/local_state.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "ir/state/shard_builder.h"
#include "ir/state/weight_tables.h"

namespace tessera {
namespace {

bool is_divided(const Program& p, BufferKindId kind) {
  return p[p.kind(kind).values.at(0)].sharding.place[AxisKind::kShard] == 0 &&
         p.kind(kind).like != kNone && state_shards(p.mesh) > 1;
}

// Returns true if only this rank's shard of the weights is up to date after a step, so that
// programs gather it.
bool is_gathered(const Program& p, BufferKindId weights) {
  for (const Segment& s : p.segments)
    for (const Op& op : s.ops)
      if (op.is<AllGather>() && p[op.outputs[0]].buffer == weights) return true;
  return false;
}

// The buffers of a group: its weights and their optimizer state.
struct Kept {
  BufferKindId weights = kNone, table = kNone, master = kNone;
  std::vector<BufferKindId> state;   // in the order of kStateOfElements
  std::vector<BufferKindId> scales;  // likewise; kNone where moments have none
};

struct StateOfElements {
  Role role;
  const char* suffix;  // follows the weight's name in checkpoints
  std::optional<Role> scale = std::nullopt;
};
constexpr StateOfElements kStateOfElements[] = {{Role::kMoment1, "|moment1", Role::kMoment1Scale},
                                                {Role::kMoment2, "|moment2", Role::kMoment2Scale},
                                                {Role::kIterate, "|iterate"},
                                                {Role::kAverage, "|average"}};

Kept kept_of(const Program& p, BufferKindId table) {
  const BufferKindId shard = flat_kind(p, table, Role::kWeight, true);
  const auto kept = [&](Role role) {
    const BufferKindId whole = flat_kind(p, table, role, false);
    return whole ? whole : flat_kind(p, table, role, true);
  };
  Kept k = {shard ? shard : table, table, kept(Role::kMaster), {}, {}};
  for (const StateOfElements& s : kStateOfElements) {
    k.state.push_back(kept(s.role));
    k.scales.push_back(s.scale ? kept(*s.scale) : BufferKindId(kNone));
  }
  return k;
}

// With a master, the master is the state and the compute weight a copy, rounded again after
// loading. Without one, the weight itself is the state. A gathered weight has shards of this rank's
// shard only, because its other shards may be out of date.
void cut_state(const Program& p, const Kept& k, ValueId weight, int64_t layer,
               const ShardBuilder& builder) {
  const bool divided = is_gathered(p, k.table);
  FlatBuffer s;
  s.weights = k.table;
  s.whole = !divided && k.weights == k.table;
  s.kind = k.master == kNone ? k.weights : k.master;
  s.divided = is_divided(p, s.kind);
  s.copy = k.master == kNone ? kNone : k.weights;
  s.copy_divided = k.weights != k.table;
  builder.add(s, weight, layer);
  s.copy = kNone;
  for (size_t i = 0; i < k.state.size(); ++i) {
    if (k.state[i] == kNone) continue;
    s.kind = k.state[i];
    s.scales = k.scales[i];
    s.divided = is_divided(p, s.kind);
    s.role = kStateOfElements[i].role;
    s.suffix = kStateOfElements[i].suffix;
    builder.add(s, weight, layer);
  }
}

// Adds Adafactor's means. All ranks of a stage have a full copy of them.
void add_factors(const Program& p, BufferKindId kind, int64_t layer, const Coordinates& at,
                 std::vector<StateShard>& out) {
  bool first = is_first_stage(p, p.kind(kind));
  for (const AxisKind a : Enumerators<AxisKind>())
    first = first && (a == AxisKind::kPipeline || at[a] == 0);
  for (const ValueId v : p.kind(kind).values) {
    StateShard x;
    x.name = full_name(p[v], layer);
    x.weight = p[v].of;
    x.role = Role::kFactoredMoment;
    x.kind = kind;
    x.layer = layer;
    x.first = p[v].offset / size_of(p[v].dtype);
    x.dtype = p[v].dtype;
    x.shape = p[v].shape;
    x.begin = {0};
    x.end = x.shape.dims();
    x.owned = first;
    out.push_back(std::move(x));
  }
}

bool is_table(const BufferKind& k, const Program& p) {
  return k.like == kNone && !k.values.empty() && p[k.values[0]].role == Role::kWeight;
}

// Returns the layers whose state of this kind is on this stage.
std::vector<int64_t> layers_of(const Program& p, BufferKindId kind) {
  std::vector<int64_t> layers;
  for (const Buffer& f : p.buffers)
    if (f.kind == kind && !std::count(layers.begin(), layers.end(), f.layer))
      layers.push_back(f.layer);
  return layers;
}

}  // namespace

StateShard weight_piece(StateShard state) {
  state.name = state.name.substr(0, state.name.find('|'));
  state.role = Role::kWeight;
  return state;
}

std::vector<StateShard> local_state(const Program& p, const Coordinates& at) {
  std::vector<StateShard> out;
  const ShardBuilder builder(p, at, out);
  for (const BufferKindId i : p.kinds.ids()) {
    if (!is_table(p.kinds[i], p)) continue;
    const Kept k = kept_of(p, i);
    for (const int64_t layer : layers_of(p, k.weights))
      for (const ValueId w : p.kinds[i].values) cut_state(p, k, w, layer, builder);
    const BufferKindId factors = factors_of(p, k.table);
    if (factors == kNone) continue;
    for (const int64_t layer : layers_of(p, factors)) add_factors(p, factors, layer, at, out);
  }
  return out;
}

std::vector<StateShard> local_gradients(const Program& p, const Coordinates& at) {
  std::vector<StateShard> out;
  const ShardBuilder builder(p, at, out);
  for (const BufferKindId i : p.kinds.ids()) {
    if (!is_table(p.kinds[i], p)) continue;
    const BufferKindId shard = flat_kind(p, i, Role::kGradient, true);
    FlatBuffer s;
    s.weights = i;
    s.kind = shard == kNone ? flat_kind(p, i, Role::kGradient, false) : shard;
    s.divided = shard != kNone;
    s.role = Role::kGradient;
    for (const int64_t layer : layers_of(p, s.kind))
      for (const ValueId w : p.kinds[i].values) builder.add(s, w, layer);
  }
  return out;
}

}  // namespace tessera

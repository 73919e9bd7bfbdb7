#include "compile/pieces.h"

#include <algorithm>

#include "base/box.h"
#include "base/error.h"
#include "compile/weight_tables.h"

namespace tessera {
namespace {

constexpr auto kShardAxis = static_cast<size_t>(AxisKind::kShard);

int64_t elements(const FrameKind& k, const Program& p) {
  return k.bytes / size_of(p[k.values.at(0)].dtype);
}

bool is_divided(const Program& p, FrameKindId kind) {
  return p[p.kind(kind).values.at(0)].sharding.place[kShardAxis] == 0 &&
         p.kind(kind).like != kNone && p.mesh[AxisKind::kShard] > 1;
}

// Whether of a frame of weights only the own part is new after a step, so that programs gather it.
bool is_gathered(const Program& p, FrameKindId weights) {
  for (const Segment& s : p.segments)
    for (const Op& op : s.ops)
      if (op.kind == OpKind::kAllGather && p[op.outputs[0]].frame == weights) return true;
  return false;
}

// The pieces of the frames of a group.
class Cutter {
 public:
  Cutter(const Program& p, const Coordinates& at, std::vector<StatePiece>& out)
      : p_(p), at_(at), out_(out) {}

  struct Source {
    FrameKindId weights = kNone, kind = kNone, copy = kNone;
    bool divided = false;  // the frame holds the own part alone
    bool copy_divided = false;
    bool whole = false;  // all parts are valid, not the own alone
    Role role = Role::kWeight;
    std::string suffix;
  };

  void cut(const Source& s, ValueId weight, int64_t layer) const {
    const FrameKind& table = p_.kind(s.weights);
    const int64_t parts = p_.mesh[AxisKind::kShard], size = elements(table, p_) / parts;
    const int64_t own = at_[AxisKind::kShard];
    const int64_t begin = p_[weight].offset / size_of(p_[weight].dtype);
    const int64_t end = begin + p_[weight].local().elements();
    for (int64_t part = 0; part < parts; ++part) {
      if (part != own && !s.whole) continue;
      const int64_t first = std::max(begin, part * size), last = std::min(end, (part + 1) * size);
      if (first >= last) continue;
      for (const Box& box : boxes_of_range(p_[weight].local(), first - begin, last - begin))
        piece(s, weight, layer, box, begin, part == own ? own * size : -1, own * size);
    }
  }

 private:
  int64_t flat_index(const Shape& shape, const std::vector<int64_t>& index) const {
    int64_t flat = 0;
    for (int d = 0; d < shape.rank(); ++d) flat = flat * shape[d] + index[static_cast<size_t>(d)];
    return flat;
  }

  // `own`: where the own part begins, if the box lies in it, else -1.
  void piece(const Source& s, ValueId weight, int64_t layer, const Box& box, int64_t begin,
             int64_t own, int64_t part_begin) const {
    const Value& w = p_[weight];
    for (const KnownBox& k : known_boxes(w, extents_of(w, p_.mesh, at_), box)) {
      for (size_t d = 1; d < box.begin.size(); ++d)
        CHECK(k.known.end[d] - k.known.begin[d] == box.end[d] - box.begin[d],
              "{} has padding in dimension {}", w.name, d);
      if (k.known.begin[0] < k.known.end[0])  // else padding alone
        known_piece(s, weight, layer, k, begin, own, part_begin);
    }
  }

  void known_piece(const Source& s, ValueId weight, int64_t layer, const KnownBox& k, int64_t begin,
                   int64_t own, int64_t part_begin) const {
    const Value& w = p_[weight];
    const int64_t at = begin + flat_index(w.local(), k.part.begin);
    StatePiece x;
    x.begin = k.known.begin;
    x.end = k.known.end;
    x.name = known_name(w, layer) + s.suffix;
    x.role = s.role;
    x.kind = s.kind;
    x.layer = layer;
    x.first = at - (s.divided ? part_begin : 0);
    x.dtype = p_[p_.kind(s.kind).values.at(0)].dtype;
    x.shape = known_shape(w);
    x.weight = weight;
    x.owned = own >= 0 && stands_for(p_, p_.kind(s.weights), w, at_);
    x.copy = s.copy;
    x.copy_first = at - (s.copy_divided ? part_begin : 0);
    out_.push_back(std::move(x));
  }

  const Program& p_;
  const Coordinates& at_;
  std::vector<StatePiece>& out_;
};

// What the optimizer keeps of a group, and where its weights are.
struct Kept {
  FrameKindId weights = kNone, table = kNone, master = kNone, moment1 = kNone, moment2 = kNone;
};

Kept kept_of(const Program& p, FrameKindId table) {
  const std::string group = group_of(p, table);
  const FrameKindId shard = find_kind(p, group + ".weights.shard");
  return {shard == kNone ? table : shard, table, find_kind(p, group + ".master"),
          find_kind(p, group + ".moment1"), find_kind(p, group + ".moment2")};
}

void cut_state(const Program& p, const Kept& k, ValueId weight, int64_t layer,
               const Cutter& cutter) {
  const bool divided = is_gathered(p, k.table);
  Cutter::Source s;
  s.weights = k.table;
  s.whole = !divided && k.weights == k.table;
  s.kind = k.master == kNone ? k.weights : k.master;
  s.divided = is_divided(p, s.kind);
  s.copy = k.master == kNone ? kNone : k.weights;
  s.copy_divided = k.weights != k.table;
  cutter.cut(s, weight, layer);
  s.copy = kNone;
  const auto moment = [&](FrameKindId kind, Role role, const char* suffix) {
    if (kind == kNone) return;
    s.kind = kind;
    s.divided = is_divided(p, kind);
    s.role = role;
    s.suffix = suffix;
    cutter.cut(s, weight, layer);
  };
  moment(k.moment1, Role::kMoment1, "|moment1");
  moment(k.moment2, Role::kMoment2, "|moment2");
}

// Adafactor's means, which all ranks of a stage have in full.
void add_factors(const Program& p, FrameKindId kind, int64_t layer, const Coordinates& at,
                 std::vector<StatePiece>& out) {
  bool first = is_first_stage(p, p.kind(kind));
  for (size_t a = 0; a < kMaxAxes; ++a)
    first = first && (a == static_cast<size_t>(AxisKind::kPipeline) || at.at[a] == 0);
  for (const ValueId v : p.kind(kind).values) {
    StatePiece x;
    x.name = full_name(p[v], layer);
    x.role = Role::kFactor;
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

bool is_table(const FrameKind& k, const Program& p) {
  return k.like == kNone && !k.values.empty() && p[k.values[0]].role == Role::kWeight;
}

// The layers whose state of a kind is here.
std::vector<int64_t> layers_of(const Program& p, FrameKindId kind) {
  std::vector<int64_t> layers;
  for (const Frame& f : p.frames)
    if (f.kind == kind && !std::count(layers.begin(), layers.end(), f.layer))
      layers.push_back(f.layer);
  return layers;
}

}  // namespace

std::vector<StatePiece> pieces(const Program& p, const Coordinates& at) {
  std::vector<StatePiece> out;
  const Cutter cutter(p, at, out);
  for (size_t i = 0; i < p.kinds.size(); ++i) {
    if (!is_table(p.kinds[i], p)) continue;
    const Kept k = kept_of(p, static_cast<FrameKindId>(i));
    for (const int64_t layer : layers_of(p, k.weights))
      for (const ValueId w : p.kinds[i].values) cut_state(p, k, w, layer, cutter);
    const FrameKindId factors = find_kind(p, group_of(p, k.table) + ".factors");
    if (factors == kNone) continue;
    for (const int64_t layer : layers_of(p, factors)) add_factors(p, factors, layer, at, out);
  }
  return out;
}

std::vector<StatePiece> gradient_pieces(const Program& p, const Coordinates& at) {
  std::vector<StatePiece> out;
  const Cutter cutter(p, at, out);
  for (size_t i = 0; i < p.kinds.size(); ++i) {
    if (!is_table(p.kinds[i], p)) continue;
    const std::string group = group_of(p, static_cast<FrameKindId>(i));
    const FrameKindId shard = find_kind(p, group + ".gradients.shard");
    Cutter::Source s;
    s.weights = static_cast<FrameKindId>(i);
    s.kind = shard == kNone ? find_kind(p, group + ".gradients") : shard;
    s.divided = shard != kNone;
    s.role = Role::kGradient;
    for (const int64_t layer : layers_of(p, s.kind))
      for (const ValueId w : p.kinds[i].values) cutter.cut(s, w, layer);
  }
  return out;
}

}  // namespace tessera

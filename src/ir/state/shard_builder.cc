// Divides a weight's state into boxes of named tensors, as checkpoints store them. A shard is a
// range of a flat buffer that generally begins and ends within a row, so several boxes of whole or
// partial rows cover it. Boxes do not depend on the layout, so a checkpoint can be resumed with
// another layout.
#include "ir/state/shard_builder.h"

#include <algorithm>

#include "base/error.h"
#include "ir/state/weight_tables.h"

namespace tessera {
namespace {

int64_t elements(const BufferKind& k, const Program& p) {
  return k.bytes / size_of(p[k.values.at(0)].dtype);
}

int64_t flat_index(const Shape& shape, const std::vector<int64_t>& index) {
  int64_t flat = 0;
  for (int d = 0; d < shape.rank(); ++d) flat = flat * shape[d] + index[d];
  return flat;
}

}  // namespace

void ShardBuilder::add(const FlatBuffer& s, ValueId weight, int64_t layer) const {
  const Value& w = p_[weight];
  const int64_t parts = state_shards(p_.mesh), size = elements(p_.kind(s.weights), p_) / parts;
  const int64_t own = state_shard(p_.mesh, at_);
  const int64_t begin = w.offset / size_of(w.dtype), end = begin + w.local().elements();
  for (int64_t part = 0; part < parts; ++part) {
    if (part != own && !s.whole) continue;
    const int64_t first = std::max(begin, part * size), last = std::min(end, (part + 1) * size);
    if (first >= last) continue;
    for (const Box& box : boxes_of_range(w.local(), first - begin, last - begin))
      for (const CheckpointBox& k : checkpoint_boxes(w, global_box_of(w, p_.mesh, at_), box)) {
        for (size_t d = 1; d < box.begin.size(); ++d)
          CHECK(k.known.end[d] - k.known.begin[d] == box.end[d] - box.begin[d],
                "{} has padding in dimension {}", w.name, d);
        if (k.known.begin[0] >= k.known.end[0]) continue;  // only padding
        StateShard x = shard(s, weight, k, begin, own * size);
        x.name = checkpoint_name(w, layer) + s.suffix;
        x.layer = layer;
        x.owned = part == own && stands_for(p_, p_.kind(s.weights), w, at_);
        out_.push_back(std::move(x));
      }
  }
}

StateShard ShardBuilder::shard(const FlatBuffer& s, ValueId weight, const CheckpointBox& box,
                               int64_t begin, int64_t own) const {
  const Value& w = p_[weight];
  const int64_t at = begin + flat_index(w.local(), box.part.begin);
  StateShard x;
  x.begin = box.known.begin;
  x.end = box.known.end;
  x.role = s.role;
  x.kind = s.kind;
  x.scales = s.scales;
  x.first = at - (s.divided ? own : 0);
  x.dtype = p_[p_.kind(s.kind).values.at(0)].dtype;
  x.shape = checkpoint_shape(w);
  x.weight = weight;
  x.copy = s.copy;
  x.copy_first = at - (s.copy_divided ? own : 0);
  return x;
}

}  // namespace tessera

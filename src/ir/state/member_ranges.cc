// Finds the offsets of a group's weights within a flat buffer of the optimizer, or within this
// rank's shard of it.
//
//   flat buffer   | w0      | w1 |  w2                | padding |
//   shards        |--- shard 0 ---|--- shard 1 ---|--- shard 2 ---|
//   shard 1 has the end of w1 and the beginning of w2
#include "ir/state/member_ranges.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "ir/state/weight_tables.h"

namespace tessera {
std::vector<MemberRange> member_ranges(const Program& p, BufferKindId table, const Value& flat,
                                       const Coordinates& at) {
  const bool divided = flat.sharding.place[AxisKind::kShard] == 0;
  const int64_t origin = divided ? state_shard(p.mesh, at) * flat.local().elements() : 0;
  std::vector<MemberRange> ranges;
  for (size_t index = 0; index < p.kind(table).values.size(); ++index) {
    const ValueId v = p.kind(table).values[index];
    const Value& w = p[v];
    const int64_t begin = w.offset / size_of(w.dtype);
    const int64_t first = std::max(begin - origin, int64_t{0});
    const int64_t last = std::min(begin + w.local().elements() - origin, flat.local().elements());
    if (first < last)
      ranges.push_back({v, first, last, first + origin - begin, index,
                        stands_for(p, p.kind(table), w, at), stands_in_stage(w, at)});
  }
  return ranges;
}

std::vector<FactoredMomentRange> factored_moment_ranges(const Program& p, BufferKindId table) {
  const std::string& members = p.kind(table).name;
  const BufferKindId factors = factors_of(p, table);
  CHECK(factors != kNone, "program {} keeps no factors of {}", p.name, members);
  std::vector<FactoredMomentRange> places;
  auto next = p.kind(factors).values.begin();
  const auto take = [&] {
    CHECK(next != p.kind(factors).values.end(), "{} has matrices without factors", members);
    const Value& v = p[*next++];
    return std::pair(v.shape[0], v.offset / size_of(v.dtype));
  };
  for (const ValueId w : p.kind(table).values)
    for (size_t part = 0; part < parts_of(p[w]).size(); ++part) {
      const auto [rows, rows_at] = take();
      places.push_back({rows, 0, rows_at, kNone});
      if (!p[w].decays) continue;
      std::tie(places.back().columns, places.back().columns_at) = take();
    }
  CHECK(next == p.kind(factors).values.end(), "{} has factors without matrices", members);
  return places;
}

std::vector<MatrixRange> matrix_ranges(const Program& p, BufferKindId directions,
                                       const Coordinates& at) {
  std::vector<MatrixRange> places;
  for (const ValueId id : p.kind(directions).values) {
    const Value& v = p[id];
    CHECK(v.shape.rank() == 3, "{} is not a list of matrices", v.name);
    const Shape& own = v.local();
    const int64_t first = global_box_of(v, p.mesh, at).begin[0] * own[1] * own[2];
    places.push_back({v.offset / size_of(v.dtype), own[0], own[1], own[2], first});
  }
  return places;
}

bool divides_matrices(const Value& weight, AxisKind axis, const Mesh& mesh) {
  return (axis == AxisKind::kTensorKv || axis == AxisKind::kTensor) && mesh[axis] > 1 &&
         weight.sharding.place[axis] >= 0;
}

std::vector<size_t> first_part_ranges(const Program& p, BufferKindId table) {
  std::vector<size_t> first;
  size_t next = 0;
  for (const ValueId w : p.kind(table).values) {
    first.push_back(next);
    next += parts_of(p[w]).size();
  }
  return first;
}

}  // namespace tessera

// Cuts the ranges of a flat buffer that belong to a weight into runs that are contiguous in the
// weight as checkpoints store it. Optimizers need them for two reasons: stochastic rounding is
// keyed by the element of the weight, and Adafactor needs rows and columns.
#include "runtime/member_runs.h"

#include <algorithm>

#include "base/error.h"
#include "base/shape.h"
#include "runtime/initialize.h"

namespace tessera::runtime {

std::vector<MemberRun> member_runs(const Program& p, std::span<const MemberRange> members,
                                   const Coordinates& at) {
  std::vector<MemberRun> runs;
  for (size_t m = 0; m < members.size(); ++m) {
    const MemberRange& range = members[m];
    const Value& w = p[range.weight];
    const GlobalBox place = global_box_of(w, p.mesh, at);
    int64_t first = range.first;
    const int64_t end = range.element + (range.last - range.first);
    for (const Box& box : boxes_of_range(w.local(), range.element, end))
      for (const CheckpointBox& k : checkpoint_boxes(w, place, box)) {
        each_run(checkpoint_shape(w), k.part.extents(), k.known, [&](const ContiguousRange& s) {
          if (s.elements > 0) runs.push_back({m, first + s.local, s.elements, s.global});
        });
        first += k.part.elements();
      }
  }
  return runs;
}

namespace {

// Appends the run in pieces that each belong to one part (q, k, v for example). `first_place` is
// the index of the weight's first part.
void cut_at_parts(const MemberRun& s, const Value& w, size_t first_place,
                  std::vector<MemberRun>& out) {
  const auto dim = static_cast<int>(w.parts[0].dim);
  const int64_t inner = w.shape.product(dim + 1, w.shape.rank()), all = w.shape[dim] * inner;
  for (int64_t done = 0; done < s.elements;) {
    const int64_t at = s.global + done, outer = at / all, within = at % all;
    size_t i = 0;
    // The weight is [outer, parts, inner]; a piece ends where its part ends.
    while (within >= (w.parts[i].first + w.parts[i].count) * inner) ++i;
    const WeightPart& part = w.parts[i];
    MemberRun piece = s;
    piece.first = s.first + done;
    piece.global = at;
    piece.elements = std::min(s.elements - done, (part.first + part.count) * inner - within);
    piece.place = first_place + i;
    piece.element = outer * part.count * inner + within - part.first * inner;
    out.push_back(piece);
    done += piece.elements;
  }
}

}  // namespace

std::vector<MemberRun> part_runs(const Program& p, BufferKindId table,
                                 std::span<const MemberRange> members,
                                 std::span<const MemberRun> runs) {
  const std::vector<size_t> first_places = first_part_ranges(p, table);
  std::vector<MemberRun> out;
  for (MemberRun s : runs) {
    const MemberRange& m = members[s.member];
    const Value& w = p[m.weight];
    CHECK(!w.parent, "{} is a part of another weight", w.name);
    s.place = first_places[m.index];
    s.element = s.global;
    if (w.parts.empty())
      out.push_back(s);
    else
      cut_at_parts(s, w, s.place, out);
  }
  return out;
}

}  // namespace tessera::runtime

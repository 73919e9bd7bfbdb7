// Cuts the ranges of a flat buffer that belong to a weight into runs that are contiguous in the
// weight as checkpoints store it. Optimizers need them for two reasons: stochastic rounding is
// keyed by the element of the weight, and Adafactor needs rows and columns.
#include "runtime/member_stretches.h"

#include <algorithm>

#include "base/error.h"
#include "base/shape.h"
#include "runtime/initialise.h"

namespace tessera::runtime {

std::vector<MemberStretch> member_stretches(const Program& p, std::span<const MemberRange> members,
                                            const Coordinates& at) {
  std::vector<MemberStretch> stretches;
  for (size_t m = 0; m < members.size(); ++m) {
    const MemberRange& range = members[m];
    const Value& w = p[range.weight];
    const Extents place = extents_of(w, p.mesh, at);
    int64_t first = range.first;
    const int64_t end = range.element + (range.last - range.first);
    for (const Box& box : boxes_of_range(w.local(), range.element, end))
      for (const KnownBox& k : known_boxes(w, place, box)) {
        each_stretch(known_shape(w), k.part.extents(), k.known, [&](const Stretch& s) {
          if (s.elements > 0) stretches.push_back({m, first + s.local, s.elements, s.global});
        });
        first += k.part.elements();
      }
  }
  return stretches;
}

namespace {

// Appends the run in pieces that each belong to one part (q, k, v for example). `first_place` is
// the index of the weight's first part.
void cut_at_parts(const MemberStretch& s, const Value& w, size_t first_place,
                  std::vector<MemberStretch>& out) {
  const auto dim = static_cast<int>(w.parts[0].dim);
  const int64_t inner = w.shape.product(dim + 1, w.shape.rank()), all = w.shape[dim] * inner;
  for (int64_t done = 0; done < s.elements;) {
    const int64_t at = s.global + done, outer = at / all, within = at % all;
    size_t i = 0;
    // The weight is [outer, parts, inner]; a piece ends where its part ends.
    while (within >= (w.parts[i].first + w.parts[i].count) * inner) ++i;
    const WeightPart& part = w.parts[i];
    MemberStretch piece = s;
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

std::vector<MemberStretch> part_stretches(const Program& p, FrameKindId table,
                                          std::span<const MemberRange> members,
                                          std::span<const MemberStretch> stretches) {
  const std::vector<size_t> first_places = first_factor_places(p, table);
  std::vector<MemberStretch> out;
  for (MemberStretch s : stretches) {
    const MemberRange& m = members[s.member];
    const Value& w = p[m.weight];
    CHECK(!w.whole, "{} is a part of another weight", w.name);
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

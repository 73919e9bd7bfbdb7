#include "base/box.h"
#include "runtime/bound_op.h"
#include "runtime/initialise.h"

namespace tessera {
namespace {

// What of a box of a rank's part is no padding, as a box of the global value.
Extents within(const Box& box, const Extents& place) {
  Extents x = {box.begin, box.end};
  for (size_t d = 0; d < box.begin.size(); ++d) {
    x.begin[d] = std::min(box.begin[d] + place.begin[d], place.end[d]);
    x.end[d] = std::min(box.end[d] + place.begin[d], place.end[d]);
  }
  return x;
}

}  // namespace

std::vector<MemberStretch> member_stretches(const Program& p, std::span<const MemberRange> members,
                                            const Coordinates& at) {
  std::vector<MemberStretch> stretches;
  for (size_t m = 0; m < members.size(); ++m) {
    const MemberRange& range = members[m];
    const Value& w = p[range.weight];
    const Extents place = extents_of(w, p.mesh, at);
    int64_t first = range.first;
    const int64_t end = range.element + (range.last - range.first);
    for (const Box& box : boxes_of_range(w.local(), range.element, end)) {
      const Extents global = within(box, place);
      each_stretch(w.shape, box.extents(), global, [&](const Stretch& s) {
        if (s.elements > 0) stretches.push_back({m, first + s.local, s.elements, s.global});
      });
      first += box.elements();
    }
  }
  return stretches;
}

}  // namespace tessera

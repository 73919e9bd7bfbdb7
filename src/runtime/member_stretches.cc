#include "base/box.h"
#include "runtime/bound_op.h"
#include "runtime/initialise.h"

namespace tessera {

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

}  // namespace tessera

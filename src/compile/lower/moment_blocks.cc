// Blocks of moments in 8 bits are the same in every layout (docs/decisions/eight_bit_moments.md).
//
// A member of a flat buffer begins at a multiple of 64 elements, and so does a rank's shard of the
// buffer. So the blocks of a rank are those of the whole weight if each range of elements that is
// contiguous in both begins at a multiple of 64.
#include <numeric>

#include "base/error.h"
#include "base/moment_code.h"
#include "compile/lower/lowering.h"
#include "ir/names.h"

namespace tessera::compile {
namespace {

static_assert(kUnitElements % kMomentBlock == 0);

// Returns the number of consecutive elements of the whole weight that a rank's shard of it, and
// each range of it, is a multiple of; 0 if the rank has the whole weight.
int64_t range_of(const Value& w, const Mesh& mesh) {
  const int rank = w.shape.rank();
  int64_t range = 0;
  for (const AxisKind axis : Enumerators<AxisKind>())
    if (const int dim = w.sharding.place[axis]; dim >= 0 && mesh[axis] > 1)
      range = std::gcd(range, w.local().product(dim, rank));
  // Rows of a parent are parts of its first dimension, from `first` of its second one on.
  if (w.parent) {
    const int64_t inner = w.local().product(2, rank);
    range = std::gcd(range, std::gcd(w.parent->first, w.local()[1]) * inner);
    range = std::gcd(range, w.parent->shape.product(1, w.parent->shape.rank()));
  }
  return range;
}

}  // namespace

void require_whole_blocks(const Lowering& low, const WeightGroup& g) {
  for (const ValueId v : low.out.program.kinds[g.weights].values) {
    const Value& w = low.graph[v];
    const int64_t range = range_of(w, low.graph.mesh);
    if (range % kMomentBlock == 0) continue;
    const Layout& layout = low.context.request.layout;
    const bool by_experts = w.sharding.place[AxisKind::kExpert] >= 0 && layout.expert > 1;
    const char* const key = by_experts ? "layout.expert" : "layout.tensor";
    throw Error(
        "{} = {} divides {} into ranges of {} elements, but optimizer.moment_dtype = 8bit stores "
        "blocks of {} moments, which a layout must not cut. Set {}: 1, or give the weight moments "
        "in f32: optimizer.groups: [{{match: [{}], moment_dtype: fp32}}].",
        key, by_experts ? layout.expert : layout.tensor, w.name, range, kMomentBlock, key,
        checkpoint_name(w));
  }
}

}  // namespace tessera::compile

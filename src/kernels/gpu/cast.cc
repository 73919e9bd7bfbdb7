// Copies, and conversions between types: a cast multiplies by one (kernels/cast.h).
#include "base/error.h"
#include "kernels/gpu/table.h"

namespace tessera::kernels::gpu {

void cast(Stream s, View x, View y) {
  CHECK(x.elements() == y.elements(), "cast of {} to {}", to_string(x.shape), to_string(y.shape));
  if (x.dtype == y.dtype) return copy(s, x, y);
  scale(s, x, 1, y);
}

void copy(Stream s, View from, View to) { copy_in_stream(s, to.data, from.data, to.bytes()); }

}  // namespace tessera::kernels::gpu

// Conversions between types: a cast multiplies by one (kernels/cast.h).
#include "kernels/cast.h"

#include "base/error.h"
#include "kernels/copy.h"
#include "kernels/scale.h"

namespace tessera::kernels {

void launch(Gpu gpu, const Launch& l, const CastArgs& a) {
  CHECK(a.x.elements() == a.y.elements(), "cast of {} to {}", to_string(a.x.shape),
        to_string(a.y.shape));
  if (a.x.dtype == a.y.dtype) return launch(gpu, l, CopyArgs{a.x, a.y});
  launch(gpu, l, ScaleArgs{a.x, 1, a.y});
}

}  // namespace tessera::kernels

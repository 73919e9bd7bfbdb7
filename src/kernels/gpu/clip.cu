// The gradient norm, and the scale and skip flag derived from it (kernels/clip.h). One thread: the
// numbers stay on the device, so that the update can be enqueued without waiting for the norm.
#include <cmath>

#include "kernels/clip.h"
#include "kernels/gpu/launch.h"

namespace tessera::kernels::gpu {
namespace {

struct ClipOnce {
  ClipArgs a;
  __host__ __device__ int64_t count() const { return 1; }
  __device__ void operator()(int64_t) const {
    constexpr double kTiny = 1e-6;  // as kernels/clip.h
    const double tokens = fmax(*a.tokens, 1.0) * *a.loss_scale;
    *a.norm = sqrt(*a.squares) / tokens;
    const double clip = a.limit > 0 ? fmin(1.0, a.limit / (*a.norm + kTiny)) : 1.0;
    *a.scale = clip / tokens;
    const bool finite = isfinite(*a.squares) && isfinite(*a.loss);
    *a.skip = finite && *a.skip_before == 0 ? 0.0 : 1.0;
  }
};

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const ClipArgs& a) { launch_map("clip", l.stream, ClipOnce{a}); }

}  // namespace tessera::kernels

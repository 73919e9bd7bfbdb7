// The norm of the gradient and what follows from it (kernels/clip.h).
#include <cmath>

#include "kernels/gpu/launch.h"
#include "kernels/gpu/views.h"

namespace tessera::kernels::gpu {
namespace {

struct ClipOnce {
  Clip a;
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

void clip(Stream s, const Clip& c) { launch_map("clip", s, ClipOnce{c}); }

}  // namespace tessera::kernels::gpu

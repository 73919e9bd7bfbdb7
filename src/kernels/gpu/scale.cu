// y = factor * x, and y = cap * tanh(x / cap) (kernels/scale.h).
#include <cmath>

#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/views.h"
#include "kernels/scale.h"

namespace tessera::kernels::gpu {
namespace {

template <bool kCaps>
struct ScaleWork {
  Groups groups;
  Numbers x, y;
  float by = 1;

  __host__ __device__ int64_t count() const { return groups.count(); }
  __device__ void operator()(int64_t i) const {
    const Groups::Place p = groups.place(i);
    float v[kGroup];
    read_group(x, p.at, p.n, groups.vector, v);
    for (float& each : v) each = kCaps ? by * tanhf(each / by) : by * each;
    write_group(y, p.at, p.n, groups.vector, v);
  }
};

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const ScaleArgs& a) {
  const Groups groups = groups_of(1, a.y.elements(), a.x, a.y);
  launch_map("scale", l.stream, ScaleWork<false>{groups, numbers(a.x), numbers(a.y), a.factor});
}

void launch(Gpu, const Launch& l, const SoftCapArgs& a) {
  const Groups groups = groups_of(1, a.y.elements(), a.x, a.y);
  launch_map("soft_cap", l.stream, ScaleWork<true>{groups, numbers(a.x), numbers(a.y), a.cap});
}

}  // namespace tessera::kernels

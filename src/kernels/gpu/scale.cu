// y = factor * x (kernels/scale.h).
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/views.h"
#include "kernels/scale.h"

namespace tessera::kernels::gpu {
namespace {

struct ScaleWork {
  Groups groups;
  Numbers x, y;
  float factor = 1;

  __host__ __device__ int64_t count() const { return groups.count(); }
  __device__ void operator()(int64_t i) const {
    const Groups::Place p = groups.place(i);
    float v[kGroup];
    read_group(x, p.at, p.n, groups.vector, v);
    for (float& each : v) each *= factor;
    write_group(y, p.at, p.n, groups.vector, v);
  }
};

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const ScaleArgs& a) {
  launch_map(
      "scale", l.stream,
      ScaleWork{groups_of(1, a.y.elements(), a.x, a.y), numbers(a.x), numbers(a.y), a.factor});
}

}  // namespace tessera::kernels

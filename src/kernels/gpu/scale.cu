// y = factor * x (kernels/scale.h).
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/views.h"

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

void scale(Stream s, View x, float factor, View y) {
  launch_map("scale", s,
             ScaleWork{groups_of(1, y.elements(), x, y), numbers(x), numbers(y), factor});
}

}  // namespace tessera::kernels::gpu

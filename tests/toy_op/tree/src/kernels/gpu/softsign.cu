// Softsign and its gradient (kernels/softsign.h).
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/views.h"
#include "kernels/softsign.h"

namespace tessera::kernels::gpu {
namespace {

struct SoftsignWork {
  Groups groups;
  Numbers x, dy, y;  // no dy: the forward
  __host__ __device__ int64_t count() const { return groups.count(); }
  __device__ void operator()(int64_t i) const {
    const Groups::Cursor p = groups.cursor(i);
    float x_group[kGroup], dy_group[kGroup];
    read_group(x, p.at, p.n, groups.vector, x_group);
    if (dy.data != nullptr) read_group(dy, p.at, p.n, groups.vector, dy_group);
    for (int k = 0; k < kGroup; ++k) {
      const float divisor = 1 + fabsf(x_group[k]);
      x_group[k] = dy.data != nullptr ? dy_group[k] / (divisor * divisor) : x_group[k] / divisor;
    }
    write_group(y, p.at, p.n, groups.vector, x_group);
  }
};

}  // namespace
}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const SoftsignArgs& a) {
  launch_map("softsign", l.stream,
             SoftsignWork{groups_of(1, a.y.elements(), a.x, a.y), numbers(a.x), {}, numbers(a.y)});
}

void launch(Gpu, const Launch& l, const SoftsignGradArgs& a) {
  launch_map("softsign_grad", l.stream,
             SoftsignWork{groups_of(1, a.dx.elements(), a.x, a.dy, a.dx), numbers(a.x),
                          numbers(a.dy), numbers(a.dx)});
}

}  // namespace tessera::kernels

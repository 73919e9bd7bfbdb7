// Elementwise kernels on a GPU. A conversion is a multiplication by one, so one kernel does both.
// Copies and zeros use functions of the GPU runtime.
#include "kernels/elementwise.h"

#include <cmath>

#include "base/require.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/views.h"

namespace tessera::kernels::gpu {
namespace {

template <bool kCaps>
struct ScaleWork {
  Groups groups;
  Numbers x, y;
  float by = 1;

  __host__ __device__ int64_t count() const { return groups.count(); }
  __device__ void operator()(int64_t i) const {
    const Groups::Cursor p = groups.cursor(i);
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

void launch(Gpu, const Launch& l, const ClearArgs& a) {
  fill_in_stream(l.stream, a.y.data, 0, a.y.bytes());
}

void launch(Gpu, const Launch& l, const CopyArgs& a) {
  copy_in_stream(l.stream, a.to.data, a.from.data, a.to.bytes());
}

void launch(Gpu, const Launch& l, const CopyRowsArgs& a) { copy_rows_in_stream(l.stream, a); }

void launch(Gpu, const Launch& l, const ScaleArgs& a) {
  const Groups groups = groups_of(1, a.y.elements(), a.x, a.y);
  launch_map("scale", l.stream, ScaleWork<false>{groups, numbers(a.x), numbers(a.y), a.factor});
}

void launch(Gpu, const Launch& l, const SoftCapArgs& a) {
  const Groups groups = groups_of(1, a.y.elements(), a.x, a.y);
  launch_map("soft_cap", l.stream, ScaleWork<true>{groups, numbers(a.x), numbers(a.y), a.cap});
}

void launch(Gpu gpu, const Launch& l, const CastArgs& a) {
  require(a.x.elements() == a.y.elements(), "a cast between views of different sizes");
  if (a.x.dtype == a.y.dtype) return launch(gpu, l, CopyArgs{a.x, a.y});
  launch(gpu, l, ScaleArgs{a.x, 1, a.y});
}

}  // namespace tessera::kernels

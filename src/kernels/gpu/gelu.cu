// GELU and its gradient, eight elements per thread (kernels/gelu.h; activation.h has the
// functions). With a bias gradient, the backward is a column sum that the activation is fused into.
#include "kernels/gelu.h"
#include "kernels/gpu/activation.h"
#include "kernels/gpu/column_sums.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/views.h"

namespace tessera::kernels::gpu {
namespace {

struct GeluRows {
  Groups groups;
  Activation kind = Activation::kErf;
  Numbers x, bias;  // no data: none
  Numbers y;
  Numbers dy;  // only the gradient, whose y is dx
};

// One group of eight: y = gelu(x + bias), or dx = dy gelu'(x + bias).
template <bool kGradient>
struct GeluWork {
  GeluRows a;
  __host__ __device__ int64_t count() const { return a.groups.count(); }
  __device__ void operator()(int64_t i) const {
    const Groups::Cursor p = a.groups.cursor(i);
    float u[kGroup], bias[kGroup] = {}, dy[kGroup] = {};
    read_group(a.x, p.at, p.n, a.groups.vector, u);
    if (a.bias.data != nullptr) read_group(a.bias, p.column, p.n, a.groups.vector, bias);
    if (kGradient) read_group(a.dy, p.at, p.n, a.groups.vector, dy);
    for (int k = 0; k < kGroup; ++k) {
      const ValueAndSlope v = activate(a.kind, u[k] + bias[k]);
      u[k] = kGradient ? dy[k] * v.slope : v.y;
    }
    write_group(a.y, p.at, p.n, a.groups.vector, u);
  }
};

Activation activation(GeluKind k) {
  return k == GeluKind::kErf ? Activation::kErf : Activation::kTanh;
}

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const GeluArgs& a) {
  launch_map("gelu", l.stream,
             GeluWork<false>{{.groups = groups_of(rows_of(a.y), columns_of(a.y), a.x, a.bias, a.y),
                              .kind = activation(a.kind),
                              .x = numbers(a.x),
                              .bias = numbers(a.bias),
                              .y = numbers(a.y),
                              .dy = {}}});
}

int64_t workspace_bytes(Gpu, const GeluGradArgs& a, int) {
  if (a.dbias.shape.rank() == 0) return 0;
  return bytes_for<float>(column_partials(rows_of(a.x), columns_of(a.x)));
}

void launch(Gpu, const Launch& l, const GeluGradArgs& a) {
  const Groups groups = groups_of(rows_of(a.dx), columns_of(a.dx), a.x, a.bias, a.dy, a.dx);
  if (a.dbias) {  // one pass computes both, with sums of unrounded values
    ColumnSums sums;
    sums.groups = groups;
    sums.dy = numbers(a.dy);
    sums.to = numbers(a.dbias);
    sums.of = numbers(a.x);
    sums.bias = numbers(a.bias);
    sums.kind = activation(a.kind);
    sums.dx = numbers(a.dx);
    sums.partials = l.room<float>();
    return launch_column_sums(sums, l.stream);
  }
  launch_map("gelu_grad", l.stream,
             GeluWork<true>{{.groups = groups,
                             .kind = activation(a.kind),
                             .x = numbers(a.x),
                             .bias = numbers(a.bias),
                             .y = numbers(a.dx),
                             .dy = numbers(a.dy)}});
}

}  // namespace tessera::kernels

// GELU and its gradient (kernels/gelu.h).
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
  Numbers dy;  // of the gradient: y is dx
};

template <bool kGradient>
struct GeluWork {
  GeluRows a;
  __host__ __device__ int64_t count() const { return a.groups.count(); }
  __device__ void operator()(int64_t i) const {
    const Groups::Place p = a.groups.place(i);
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

void gelu(Stream s, GeluKind kind, View x, View bias, View y) {
  launch_map("gelu", s,
             GeluWork<false>{{.groups = groups_of(rows_of(y), columns_of(y), x, bias, y),
                              .kind = activation(kind),
                              .x = numbers(x),
                              .bias = numbers(bias),
                              .y = numbers(y),
                              .dy = {}}});
}

int64_t gelu_grad_bytes(int64_t n, int64_t d) {
  return column_partials(n, d) * static_cast<int64_t>(sizeof(float));
}

void gelu_grad(Stream s, const GeluGrad& a, void* workspace) {
  const Groups groups = groups_of(rows_of(a.dx), columns_of(a.dx), a.x, a.bias, a.dy, a.dx);
  if (a.dbias) {  // both in one sweep, and sums of what is not rounded yet
    ColumnSums sums;
    sums.groups = groups;
    sums.dy = numbers(a.dy);
    sums.to = numbers(a.dbias);
    sums.of = numbers(a.x);
    sums.bias = numbers(a.bias);
    sums.kind = activation(a.kind);
    sums.dx = numbers(a.dx);
    sums.partials = static_cast<float*>(workspace);
    return launch_column_sums(sums, s);
  }
  launch_map("gelu_grad", s,
             GeluWork<true>{{.groups = groups,
                             .kind = activation(a.kind),
                             .x = numbers(a.x),
                             .bias = numbers(a.bias),
                             .y = numbers(a.dx),
                             .dy = numbers(a.dy)}});
}

}  // namespace tessera::kernels::gpu

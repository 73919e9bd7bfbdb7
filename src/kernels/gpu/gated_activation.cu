// Gated activations and their gradients (kernels/gated_activation.h): dgate = dy value act'(gate),
// dvalue = dy act(gate). Gate and value are adjacent in memory, so eight pairs are 16 numbers,
// which are read as two groups:
//
//   x[0]  g0 v0 g1 v1 g2 v2 g3 v3      x[1]  g4 v4 g5 v5 g6 v6 g7 v7
#include "kernels/gated_activation.h"
#include "kernels/gpu/activation.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/views.h"

namespace tessera::kernels::gpu {
namespace {

// The operands of n pairs.
struct GatedPairs {
  Groups groups;  // one row of n
  Activation kind = Activation::kSilu;
  Numbers x, y;
  Numbers dy, dx;  // only the gradient
};

// Eight pairs (gate, value); a group of pairs is two groups of x.
struct Pairs {
  float x[2][kGroup];
  __device__ void read(const Numbers& from, const Groups::Cursor& p, bool vector) {
    const int first = p.n * 2 < kGroup ? p.n * 2 : kGroup;
    read_group(from, 2 * p.at, first, vector, x[0]);
    read_group(from, 2 * p.at + kGroup, 2 * p.n - first, vector, x[1]);
  }
  __device__ void write(const Numbers& to, const Groups::Cursor& p, bool vector) const {
    const int first = p.n * 2 < kGroup ? p.n * 2 : kGroup;
    write_group(to, 2 * p.at, first, vector, x[0]);
    write_group(to, 2 * p.at + kGroup, 2 * p.n - first, vector, x[1]);
  }
  __device__ float& gate(int k) { return x[k / 4][k % 4 * 2]; }
  __device__ float& value(int k) { return x[k / 4][k % 4 * 2 + 1]; }
};

struct GatedWork {
  GatedPairs a;
  __host__ __device__ int64_t count() const { return a.groups.count(); }
  __device__ void operator()(int64_t i) const {
    const Groups::Cursor p = a.groups.cursor(i);
    Pairs x;
    x.read(a.x, p, a.groups.vector);
    float y[kGroup];
    for (int k = 0; k < kGroup; ++k) y[k] = activate(a.kind, x.gate(k)).y * x.value(k);
    write_group(a.y, p.at, p.n, a.groups.vector, y);
  }
};

struct GatedGradWork {
  GatedPairs a;
  __host__ __device__ int64_t count() const { return a.groups.count(); }
  __device__ void operator()(int64_t i) const {
    const Groups::Cursor p = a.groups.cursor(i);
    Pairs x;
    x.read(a.x, p, a.groups.vector);
    float dy[kGroup];
    read_group(a.dy, p.at, p.n, a.groups.vector, dy);
    for (int k = 0; k < kGroup; ++k) {
      const ValueAndSlope v = activate(a.kind, x.gate(k));
      x.gate(k) = dy[k] * x.value(k) * v.slope;
      x.value(k) = dy[k] * v.y;
    }
    x.write(a.dx, p, a.groups.vector);
  }
};

Activation activation(GateKind k) {
  if (k == GateKind::kSilu) return Activation::kSilu;
  return k == GateKind::kErf ? Activation::kErf : Activation::kTanh;
}

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const GatedActivationArgs& a) {
  launch_map("gated_activation", l.stream,
             GatedWork{{.groups = groups_of(1, a.y.elements(), a.x, a.y),
                        .kind = activation(a.kind),
                        .x = numbers(a.x),
                        .y = numbers(a.y),
                        .dy = {},
                        .dx = {}}});
}

void launch(Gpu, const Launch& l, const GatedActivationGradArgs& a) {
  launch_map("gated_activation_grad", l.stream,
             GatedGradWork{{.groups = groups_of(1, a.dy.elements(), a.x, a.dy, a.dx),
                            .kind = activation(a.kind),
                            .x = numbers(a.x),
                            .y = {},
                            .dy = numbers(a.dy),
                            .dx = numbers(a.dx)}});
}

}  // namespace tessera::kernels

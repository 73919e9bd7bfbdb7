// What each element is made of its own place alone.
#include "kernels/cuda/activation.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/numbers.h"
#include "kernels/cuda/philox.h"
#include "kernels/cuda/rows.h"

namespace tessera::kernels::cuda {
namespace {

__device__ void sum_group(const SumRows& a, const Groups::Place& p, float (&sum)[kGroup]) {
  for (float& x : sum) x = 0;
  float x[kGroup];
  for (int t = 0; t < a.terms; ++t) {
    read_group(a.term[t], p.at, p.n, a.groups.vector, x);
    for (int k = 0; k < kGroup; ++k) sum[k] += x[k];
  }
  for (int t = 0; t < a.biases; ++t) {
    read_group(a.bias[t], p.column, p.n, a.groups.vector, x);
    for (int k = 0; k < kGroup; ++k) sum[k] += x[k];
  }
}

struct SumWork {
  SumRows a;
  __host__ __device__ int64_t count() const { return a.groups.count(); }
  __device__ void operator()(int64_t i) const {
    const Groups::Place p = a.groups.place(i);
    float sum[kGroup];
    sum_group(a, p, sum);
    write_group(a.out, p.at, p.n, a.groups.vector, sum);
  }
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

// The pairs of a group are two groups of x.
struct Pairs {
  float x[2][kGroup];
  __device__ void read(const Numbers& from, const Groups::Place& p, bool vector) {
    const int first = p.n * 2 < kGroup ? p.n * 2 : kGroup;
    read_group(from, 2 * p.at, first, vector, x[0]);
    read_group(from, 2 * p.at + kGroup, 2 * p.n - first, vector, x[1]);
  }
  __device__ void write(const Numbers& to, const Groups::Place& p, bool vector) const {
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
    const Groups::Place p = a.groups.place(i);
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
    const Groups::Place p = a.groups.place(i);
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

struct DropWork {
  DropRows a;
  __host__ __device__ int64_t count() const { return a.groups.count(); }
  __device__ void operator()(int64_t i) const {
    const Groups::Place p = a.groups.place(i);
    const int64_t sample = a.samples[p.row / a.rows_of_sample];
    const int64_t row = a.first_row + p.row % a.rows_of_sample;
    const int64_t element = row * a.width + a.first_column + p.column;
    PhiloxWords words(value_of(a.key), static_cast<uint64_t>(sample));
    float x[kGroup];
    read_group(a.x, p.at, p.n, a.groups.vector, x);
    for (int k = 0; k < kGroup; ++k) {
      if (k >= p.n) break;
      const bool dropped = is_dropped(words.of(element + k), a.probability);
      x[k] = dropped ? 0.0f : x[k] * a.scale;
      if (a.kept != nullptr) a.kept[p.at + k] = dropped ? 0 : 1;
    }
    write_group(a.y, p.at, p.n, a.groups.vector, x);
  }
};

struct DropGradWork {
  DropRows a;
  __host__ __device__ int64_t count() const { return a.groups.count(); }
  __device__ void operator()(int64_t i) const {
    const Groups::Place p = a.groups.place(i);
    float x[kGroup];
    read_group(a.x, p.at, p.n, a.groups.vector, x);
    for (int k = 0; k < kGroup; ++k)
      if (k < p.n) x[k] = a.kept[p.at + k] != 0 ? x[k] * a.scale : 0.0f;
    write_group(a.y, p.at, p.n, a.groups.vector, x);
  }
};

struct ScaleWork {
  ScaleFlat a;
  __host__ __device__ int64_t count() const { return a.groups.count(); }
  __device__ void operator()(int64_t i) const {
    const Groups::Place p = a.groups.place(i);
    float x[kGroup];
    read_group(a.x, p.at, p.n, a.groups.vector, x);
    for (float& v : x) v *= a.factor;
    write_group(a.y, p.at, p.n, a.groups.vector, x);
  }
};

}  // namespace

void launch_sum(const SumRows& a, Stream s) { launch_map("sum", s, SumWork{a}); }
void launch_gelu(const GeluRows& a, Stream s) { launch_map("gelu", s, GeluWork<false>{a}); }
void launch_gelu_grad(const GeluRows& a, Stream s) {
  launch_map("gelu_grad", s, GeluWork<true>{a});
}
void launch_gated(const GatedPairs& a, Stream s) {
  launch_map("gated_activation", s, GatedWork{a});
}
void launch_gated_grad(const GatedPairs& a, Stream s) {
  launch_map("gated_activation_grad", s, GatedGradWork{a});
}
void launch_dropout(const DropRows& a, Stream s) { launch_map("dropout", s, DropWork{a}); }
void launch_dropout_grad(const DropRows& a, Stream s) {
  launch_map("dropout_grad", s, DropGradWork{a});
}
void launch_scale(const ScaleFlat& a, Stream s) { launch_map("scale", s, ScaleWork{a}); }

}  // namespace tessera::kernels::cuda

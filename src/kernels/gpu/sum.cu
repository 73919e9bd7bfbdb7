// Sums of activations, eight elements per thread, and bias gradients, which are column sums
// (kernels/sum.h, column_sums.cu). Terms are added in f32 in the order given and rounded once.
#include "kernels/gpu/views.h"

#include "kernels/gpu/column_sums.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"

namespace tessera::kernels::gpu {
namespace {

// Computes the sums of one group of elements. A term has the shape of the output. A bias has one
// element per column, so it is read at the group's column.
__device__ void sum_group(const SumRows& a, const Groups::Cursor& p, float (&sum)[kGroup]) {
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
    const Groups::Cursor p = a.groups.cursor(i);
    float sum[kGroup];
    sum_group(a, p, sum);
    write_group(a.out, p.at, p.n, a.groups.vector, sum);
  }
};

bool all_aligned(const Summands& views) {
  for (View v : views)
    if (!aligned(v.data)) return false;
  return true;
}

}  // namespace

// 16-byte accesses need all operands aligned, since they are read at the same offsets.
SumRows sum_rows(const SumArgs& a) {
  SumRows s;
  s.groups = groups_of(rows_of(a.out), columns_of(a.out), a.out);
  s.groups.vector = s.groups.vector && all_aligned(a.terms) && all_aligned(a.biases);
  for (View t : a.terms) s.term[s.terms++] = numbers(t);
  for (View b : a.biases) s.bias[s.biases++] = numbers(b);
  s.out = numbers(a.out);
  return s;
}

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const SumArgs& a) {
  launch_map("sum", l.stream, SumWork{sum_rows(a)});
}

int64_t workspace_bytes(Gpu, const BiasGradArgs& a, int) {
  return bytes_for<float>(column_partials(rows_of(a.dy), columns_of(a.dy)));
}

void launch(Gpu, const Launch& l, const BiasGradArgs& a) {
  ColumnSums sums;
  sums.groups = groups_of(rows_of(a.dy), columns_of(a.dy), a.dy);
  sums.dy = numbers(a.dy);
  sums.to = numbers(a.dbias);
  sums.partials = l.room<float>();
  launch_column_sums(sums, l.stream);
}

}  // namespace tessera::kernels

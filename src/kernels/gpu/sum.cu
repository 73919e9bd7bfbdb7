// Sums of activations and of their rows (kernels/sum.h).
#include "kernels/gpu/sum.h"

#include "kernels/gpu/column_sums.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"

namespace tessera::kernels::gpu {
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

bool all_aligned(Views views) {
  for (View v : views)
    if (!aligned(v.data)) return false;
  return true;
}

}  // namespace

SumRows sum_rows(Views terms, Views biases, View out) {
  require(terms.size() <= kMostTerms && biases.size() <= kMostTerms,
          "a sum of more than 4 terms or biases");
  SumRows a;
  a.groups = groups_of(rows_of(out), columns_of(out), out);
  a.groups.vector = a.groups.vector && all_aligned(terms) && all_aligned(biases);
  for (View t : terms) a.term[a.terms++] = numbers(t);
  for (View b : biases) a.bias[a.biases++] = numbers(b);
  a.out = numbers(out);
  return a;
}

void sum(Stream s, Views terms, Views biases, View out) {
  launch_map("sum", s, SumWork{sum_rows(terms, biases, out)});
}

int64_t bias_grad_bytes(int64_t n, int64_t d) {
  return column_partials(n, d) * static_cast<int64_t>(sizeof(float));
}

void bias_grad(Stream s, View dy, View dbias, void* workspace) {
  ColumnSums a;
  a.groups = groups_of(rows_of(dy), columns_of(dy), dy);
  a.dy = numbers(dy);
  a.to = numbers(dbias);
  a.partials = static_cast<float*>(workspace);
  launch_column_sums(a, s);
}

}  // namespace tessera::kernels::gpu

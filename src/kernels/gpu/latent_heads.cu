// Packs heads of latent attention on a GPU (kernels/latent_heads.h): one thread per number of the
// result. The gradient of the shared part of the keys is one thread's sum over the heads of a
// token.
#include "kernels/latent_heads.h"

#include "base/require.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/numbers.h"
#include "kernels/gpu/views.h"

namespace tessera::kernels::gpu {
namespace {

struct LatentWork {
  int64_t tokens = 0, heads = 0, d = 0, shared = 0, own = 0, value = 0;
  Numbers queries, expanded, part, packed;

  __host__ __device__ int64_t expanded_width() const { return own + value; }
  // Where number k of the shared part, which is packed as halves, is among the pairs.
  __host__ __device__ int64_t in_pairs(int64_t k) const {
    return k < shared / 2 ? 2 * k : 2 * (k - shared / 2) + 1;
  }
  // The inverse.
  __host__ __device__ int64_t in_halves(int64_t k) const { return k / 2 + k % 2 * (shared / 2); }
  // The place of number k of slot s of a head's row; `row` counts heads of all tokens.
  __host__ __device__ int64_t at(int64_t row, int64_t s, int64_t k) const {
    return (row * 3 + s) * d + k;
  }
};

struct PackLatent {
  LatentWork a;
  __host__ __device__ int64_t count() const { return a.tokens * a.heads * 3 * a.d; }
  __device__ float number(int64_t row, int64_t s, int64_t k) const {
    const int64_t kv = row * a.expanded_width();
    if (s == 0)
      return read(a.queries, row * a.d + (k < a.shared ? a.own + a.in_pairs(k) : k - a.shared));
    if (s == 2) return k < a.value ? read(a.expanded, kv + a.own + k) : 0.0f;
    if (k < a.shared) return read(a.part, row / a.heads * a.shared + a.in_pairs(k));
    return read(a.expanded, kv + k - a.shared);
  }
  __device__ void operator()(int64_t i) const {
    write(a.packed, i, number(i / (3 * a.d), i / a.d % 3, i % a.d));
  }
};

struct SeparateQueries {
  LatentWork a;
  __host__ __device__ int64_t count() const { return a.tokens * a.heads * a.d; }
  __device__ void operator()(int64_t i) const {
    const int64_t k = i % a.d, from = k < a.own ? a.shared + k : a.in_halves(k - a.own);
    write(a.queries, i, read(a.packed, a.at(i / a.d, 0, from)));
  }
};

struct SeparateExpanded {
  LatentWork a;
  __host__ __device__ int64_t count() const { return a.tokens * a.heads * a.expanded_width(); }
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / a.expanded_width(), k = i % a.expanded_width();
    const int64_t from = k < a.own ? a.at(row, 1, a.shared + k) : a.at(row, 2, k - a.own);
    write(a.expanded, i, read(a.packed, from));
  }
};

struct SumShared {
  LatentWork a;
  __host__ __device__ int64_t count() const { return a.tokens * a.shared; }
  __device__ void operator()(int64_t i) const {
    const int64_t first = i / a.shared * a.heads, k = a.in_halves(i % a.shared);
    float sum = 0;
    for (int64_t h = 0; h < a.heads; ++h) sum += read(a.packed, a.at(first + h, 1, k));
    write(a.part, i, sum);
  }
};

LatentWork work_of(View packed, View queries, View expanded, View shared) {
  LatentWork w;
  w.tokens = packed.shape[0] * packed.shape[1];
  w.heads = packed.shape[2];
  w.d = packed.shape[4];
  w.shared = shared.shape[-1];
  w.own = w.d - w.shared;
  w.value = expanded.shape[-1] - w.own;
  require(w.own >= 0 && w.shared % 2 == 0 && w.value >= 1 && w.value <= w.d,
          "latent heads: the parts of keys and values do not fit in a row");
  w.queries = numbers(queries);
  w.expanded = numbers(expanded);
  w.part = numbers(shared);
  w.packed = numbers(packed);
  return w;
}

}  // namespace

}  // namespace tessera::kernels::gpu

namespace tessera::kernels {

using namespace gpu;

void launch(Gpu, const Launch& l, const LatentHeadsArgs& a) {
  launch_map("latent_heads", l.stream,
             PackLatent{work_of(a.packed, a.queries, a.expanded, a.shared)});
}

void launch(Gpu, const Launch& l, const LatentHeadsGradArgs& a) {
  const LatentWork w = work_of(a.d_packed, a.d_queries, a.d_expanded, a.d_shared);
  launch_map("latent_heads_grad_queries", l.stream, SeparateQueries{w});
  launch_map("latent_heads_grad_expanded", l.stream, SeparateExpanded{w});
  launch_map("latent_heads_grad_shared", l.stream, SumShared{w});
}

}  // namespace tessera::kernels

// Packs heads of latent attention on the CPU: copies of rows, divided among threads by tokens. The
// gradient of the shared part of the keys adds the heads of a token one after another.
#include "kernels/latent_heads.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/operand.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {
namespace {

// The widths of the parts of a row, and its heads.
struct LatentRows {
  int64_t tokens, heads, d, shared, own, value;

  LatentRows(const TensorView& packed, const TensorView& expanded, const TensorView& part)
      : tokens(packed.shape.product(0, 2)),
        heads(packed.shape[2]),
        d(packed.shape[4]),
        shared(part.shape[-1]),
        own(d - shared),
        value(expanded.shape[-1] - own) {
    CHECK(packed.shape.rank() == 5 && packed.shape[3] == 3 && own >= 0 && shared % 2 == 0 &&
              value >= 1 && value <= d && expanded.elements() == tokens * heads * (own + value) &&
              part.elements() == tokens * shared,
          "latent heads {} with {} and {}", to_string(packed.shape), to_string(expanded.shape),
          to_string(part.shape));
  }
};

// Copies n numbers.
void copy(Source from, Sink to, int64_t n) {
  std::memcpy(to.data, from.data, static_cast<size_t>(n * from.bytes()));
}

// Maps index k of a row stored as two halves (all first elements, then all second ones) to its
// index in the same row stored as n / 2 pairs.
int64_t in_pairs(int64_t k, int64_t n) { return k < n / 2 ? 2 * k : 2 * (k - n / 2) + 1; }

// Copy n numbers from one of the two orders to the other. T has the size of a number.
template <class T>
void to_halves(const T* pairs, T* halves, int64_t n) {
  for (int64_t k = 0; k < n; ++k) halves[k] = pairs[in_pairs(k, n)];
}
template <class T>
void to_pairs(const T* halves, T* pairs, int64_t n) {
  for (int64_t k = 0; k < n; ++k) pairs[in_pairs(k, n)] = halves[k];
}
void to_halves(Source pairs, Sink halves, int64_t n) {
  if (pairs.bytes() == 4)
    to_halves(pairs.as<uint32_t>(), halves.as<uint32_t>(), n);
  else
    to_halves(pairs.as<uint16_t>(), halves.as<uint16_t>(), n);
}
void to_pairs(Source halves, Sink pairs, int64_t n) {
  if (halves.bytes() == 4)
    to_pairs(halves.as<uint32_t>(), pairs.as<uint32_t>(), n);
  else
    to_pairs(halves.as<uint16_t>(), pairs.as<uint16_t>(), n);
}

constexpr int64_t kBlock = 64;  // columns of a sum at a time

// Writes the sums over heads of n numbers at a distance of `pitch`: halves, to pairs.
void sum_heads(Source from, int64_t heads, int64_t pitch, int64_t n, Sink to) {
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t count = std::min(kBlock, n - first);
    float sum[kBlock] = {};
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t c = 0; c < count; ++c) sum[c] += from[h * pitch + first + c];
    for (int64_t c = 0; c < count; ++c) to.set(in_pairs(first + c, n), sum[c]);
  }
}

}  // namespace

void launch(Cpu, const Launch& l, const LatentHeadsArgs& a) {
  const LatentRows r(a.packed, a.expanded, a.shared);
  CHECK(a.queries.elements() == r.tokens * r.heads * r.d, "latent heads {} with queries {}",
        to_string(a.packed.shape), to_string(a.queries.shape));
  const Source queries(a.queries), expanded(a.expanded), shared(a.shared);
  const Sink packed(a.packed);
  const size_t rest = static_cast<size_t>((r.d - r.value) * packed.bytes());
  parallel_rows(r.tokens, r.heads * 3 * r.d, l.threads, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin * r.heads; row < end * r.heads; ++row) {
      const Source kv = expanded + row * (r.own + r.value);
      const Sink q = packed + row * 3 * r.d, k = q + r.d, v = k + r.d;
      to_halves(queries + (row * r.d + r.own), q, r.shared);
      copy(queries + row * r.d, q + r.shared, r.own);
      to_halves(shared + row / r.heads * r.shared, k, r.shared);
      copy(kv, k + r.shared, r.own);
      copy(kv + r.own, v, r.value);
      std::memset((v + r.value).data, 0, rest);
    }
  });
}

void launch(Cpu, const Launch& l, const LatentHeadsGradArgs& a) {
  const LatentRows r(a.d_packed, a.d_expanded, a.d_shared);
  CHECK(a.d_queries.elements() == r.tokens * r.heads * r.d, "latent heads {} with queries {}",
        to_string(a.d_packed.shape), to_string(a.d_queries.shape));
  const Source packed(a.d_packed);
  const Sink queries(a.d_queries), expanded(a.d_expanded), shared(a.d_shared);
  parallel_rows(r.tokens, r.heads * 3 * r.d, l.threads, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin * r.heads; row < end * r.heads; ++row) {
      const Source q = packed + row * 3 * r.d, k = q + r.d, v = k + r.d;
      const Sink kv = expanded + row * (r.own + r.value);
      to_pairs(q, queries + (row * r.d + r.own), r.shared);
      copy(q + r.shared, queries + row * r.d, r.own);
      copy(k + r.shared, kv, r.own);
      copy(v, kv + r.own, r.value);
    }
    for (int64_t token = begin; token < end; ++token)
      sum_heads(packed + (token * r.heads * 3 + 1) * r.d, r.heads, 3 * r.d, r.shared,
                shared + token * r.shared);
  });
}

}  // namespace tessera::kernels

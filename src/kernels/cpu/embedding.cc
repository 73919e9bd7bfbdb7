// Embedding lookup and the gradient of its table on the CPU. The gradient is a scatter-add in which
// several tokens may hit the same row. Instead of using atomics, each thread owns a stripe of
// columns and adds all tokens in order: no two threads write the same cache line, and the order of
// the sums is fixed.
#include "kernels/embedding.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/elementwise_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(CastRange);
HWY_EXPORT(AddRowTo);

namespace {

// Maps the position of an id to its row in this shard of the table, or to -1.
struct RowOf {
  const int32_t* ids;
  int64_t first, rows, total;
  RowOf(const TensorView& id, const TensorView& table, const TableRows& r)
      : ids(id.as<int32_t>()),
        first(r.first),
        rows(table.shape[0]),
        total(r.total > 0 ? r.total : table.shape[0]) {
    CHECK(id.dtype == DType::kI32 && table.shape.rank() == 2, "embedding: ids {}, table {}",
          name_of(id.dtype), to_string(table.shape));
  }
  int64_t operator()(int64_t n) const {
    const int64_t id = ids[n];
    CHECK(id >= 0 && id < total, "id {} at position {} is outside a table of {} rows", id, n,
          total);
    return id >= first && id < first + rows ? id - first : -1;
  }
};

// Each thread owns whole stripes of columns.
constexpr int64_t kStripe = 16;  // one cache line of f32

// Returns the positions of the ids, ordered by their rows; ids of other ranks' rows come first.
std::span<int32_t> places_by_row(const RowOf& row_of, int64_t count, void* workspace) {
  const std::span places(static_cast<int32_t*>(workspace), count);
  std::iota(places.begin(), places.end(), 0);
  // Ties are broken by position, so a row's sum has the order of the tokens.
  std::sort(places.begin(), places.end(), [&](int32_t a, int32_t b) {
    const int64_t x = row_of(a), y = row_of(b);
    return x != y ? x < y : a < b;
  });
  return places;
}

// Adds one stripe to a 16-bit table. The sum of a row is kept in f32 until its last id and rounded
// once; positions are ordered by row, so a buffer for one row suffices.
void add_rounded_stripe(const RowOf& row_of, std::span<const int32_t> places, Source from, Sink to,
                        int64_t c, int64_t width, int64_t d, void (*add)(Source, Sink, int64_t)) {
  for (size_t i = 0; i < places.size();) {
    const int64_t row = row_of(places[i]);
    float sums[kStripe] = {};
    const Sink sum(sums, DType::kF32);
    for (; i < places.size() && row_of(places[i]) == row; ++i)
      if (row >= 0) add(from + (places[i] * d + c), sum, width);
    if (row >= 0) add(sum, to + (row * d + c), width);
  }
}

}  // namespace

void launch(Cpu, const Launch& l, const EmbeddingArgs& a) {
  const int64_t d = columns_of(a.table), count = a.ids.elements();
  const RowOf row_of(a.ids, a.table, a.rows);
  CHECK(a.y.elements() == count * d, "embedding: {} ids of {} columns into {}", count, d,
        to_string(a.y.shape));
  const Source from(a.table);
  const Sink to(a.y);
  const auto cast = &HWY_DYNAMIC_DISPATCH(CastRange);
  parallel_rows(count, d, l.threads, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t row = row_of(n);
      if (row >= 0) {
        cast(from + row * d, to + n * d, 0, d);
      } else {
        std::memset((to + n * d).data, 0, d * to.bytes());
      }
    }
  });
}

int64_t workspace_bytes(Cpu, const EmbeddingGradArgs& a, int) {
  if (a.d_table.dtype == DType::kF32) return 0;
  return bytes_for<int32_t>(a.ids.elements());
}

// An f32 table is accumulated in place. In a 16-bit table that would round after every token, so
// ids are sorted by row and each row's sum is rounded once.
void launch(Cpu, const Launch& l, const EmbeddingGradArgs& a) {
  const int64_t d = columns_of(a.d_table), count = a.ids.elements();
  const RowOf row_of(a.ids, a.d_table, a.rows);
  CHECK(a.dy.elements() == count * d, "embedding_grad: {} ids of {} columns from {}", count, d,
        to_string(a.dy.shape));
  const Source from(a.dy);
  const Sink to(a.d_table);
  const auto add = &HWY_DYNAMIC_DISPATCH(AddRowTo);
  const bool rounds = to.type != DType::kF32;
  std::span<const int32_t> places;
  if (rounds) places = places_by_row(row_of, count, l.workspace);
  const int64_t stripes = (d + kStripe - 1) / kStripe;
  parallel_rows(stripes, count * kStripe, l.threads, [&](int64_t begin, int64_t end) {
    if (rounds) {
      for (int64_t c = begin * kStripe; c < std::min(d, end * kStripe); c += kStripe)
        add_rounded_stripe(row_of, places, from, to, c, std::min(kStripe, d - c), d, add);
      return;
    }
    const int64_t c = begin * kStripe, width = std::min(d, end * kStripe) - c;
    for (int64_t n = 0; n < count; ++n) {
      const int64_t row = row_of(n);
      if (row >= 0) add(from + (n * d + c), to + (row * d + c), width);
    }
  });
}

}  // namespace tessera::kernels

#include "kernels/embedding.h"

#include <cstring>

#define HWY_TARGET_INCLUDE "kernels/cpu/embedding_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/embedding_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(CopyRow);
HWY_EXPORT(AddRowTo);

namespace {

// The row of an id in this part of the table, or -1.
struct RowOf {
  const int32_t* ids;
  int64_t first, rows, total;
  RowOf(const TensorView& id, const TensorView& table, const TableRows& r)
      : ids(id.as<int32_t>()),
        first(r.first),
        rows(table.shape[0]),
        total(r.total > 0 ? r.total : table.shape[0]) {
    CHECK(id.dtype == DType::kI32 && table.shape.rank() == 2, "embedding of {} ids from {}",
          name_of(id.dtype), to_string(table.shape));
  }
  int64_t operator()(int64_t n) const {
    const int64_t id = ids[n];
    CHECK(id >= 0 && id < total, "id {} at place {} of a table of {} rows", id, n, total);
    return id >= first && id < first + rows ? id - first : -1;
  }
};

}  // namespace

void embedding(const TensorView& ids, const TensorView& table, const TensorView& y,
               const TableRows& rows) {
  const int64_t d = columns_of(table), count = ids.elements();
  const RowOf row_of(ids, table, rows);
  CHECK(y.elements() == count * d, "embedding: {} ids of {} columns into {}", count, d,
        to_string(y.shape));
  const Source from(table);
  const Sink to(y);
  const auto copy = &HWY_DYNAMIC_DISPATCH(CopyRow);
  parallel_rows(count, d, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t row = row_of(n);
      if (row >= 0) {
        copy(from + row * d, to + n * d, d);
      } else {
        std::memset((to + n * d).data, 0, static_cast<size_t>(d * to.bytes()));
      }
    }
  });
}

// Each thread owns a stripe of columns and adds every row's part of it in order.
void embedding_grad(const TensorView& ids, const TensorView& dy, const TensorView& d_table,
                    const TableRows& rows) {
  constexpr int64_t kStripe = 16;  // one cache line of f32, so that threads share none
  const int64_t d = columns_of(d_table), count = ids.elements();
  const RowOf row_of(ids, d_table, rows);
  CHECK(dy.elements() == count * d, "embedding_grad: {} ids of {} columns from {}", count, d,
        to_string(dy.shape));
  const Source from(dy);
  float* const to = d_table.f32();
  const auto add = &HWY_DYNAMIC_DISPATCH(AddRowTo);
  const int64_t stripes = (d + kStripe - 1) / kStripe;
  parallel_rows(stripes, count * kStripe, [&](int64_t begin, int64_t end) {
    const int64_t c = begin * kStripe, width = std::min(d, end * kStripe) - c;
    for (int64_t n = 0; n < count; ++n) {
      const int64_t row = row_of(n);
      if (row >= 0) add(from + (n * d + c), to + row * d + c, width);
    }
  });
}

}  // namespace tessera::kernels

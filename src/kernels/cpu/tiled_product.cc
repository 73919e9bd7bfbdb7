// Blocked GEMM after Goto and van de Geijn (2008), "Anatomy of High-Performance Matrix
// Multiplication"; tiled_product_simd.h has the inner loops.
// The loops of one thread, from the outermost to the innermost (k before m, so that a block of B is
// packed once):
//
//   n by block_n         block of B, [block_k, block_n], packed: this thread's share of L3
//   └ k by block_k
//     └ m by block_m     block of A, [block_m, block_k], packed: half of L2
//       └ n by columns   one panel of B, [block_k, columns]: L1
//         └ m by rows    register tile, [rows, columns], summed over block_k
// C is divided into a grid of parts, one per thread and batch element. One thread sums a part in
// the order of k, so the bits of C do not depend on scheduling.
#include "kernels/cpu/tiled_product.h"

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

#include "base/error.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/tiled_product_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/tiled_product_simd.h"

namespace tessera::kernels {
namespace {

HWY_EXPORT(register_tile);
HWY_EXPORT(run_part);
HWY_EXPORT(multiply_few_rows);
HWY_EXPORT(pack_panels_of);

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Returns the grid that divides C into at most `parts` parts with minimum copying: a part [m, n]
// copies m·k + k·n elements.
std::pair<int64_t, int64_t> choose_grid(int64_t m, int64_t n, int64_t parts) {
  // A copied tile costs about as much as 16 multiplied ones.
  constexpr int64_t kCopyCost = 16;
  std::pair<int64_t, int64_t> best{1, 1};
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t rows = 1; rows <= parts; ++rows) {
    const int64_t columns = parts / rows;
    const int64_t part_m = (m + rows - 1) / rows, part_n = (n + columns - 1) / columns;
    const int64_t cost = part_m * part_n + kCopyCost * (part_m + part_n);
    if (cost < least) least = cost, best = {rows, columns};
  }
  return best;
}

}  // namespace

bool has_few_rows(const MatmulShape& s) {
  constexpr int64_t kFewRows = 16;
  return s.m <= kFewRows && !s.transpose_a && s.transpose_b && !s.packed_b;
}

TiledProduct::TiledProduct(const MatmulShape& shape, const CpuFeatures& cpu, int threads)
    : shape_(shape), threads_(threads), few_rows_(has_few_rows(shape)) {
  const RegisterTile tile = HWY_DYNAMIC_DISPATCH(register_tile)();
  rows_ = tile.rows;
  columns_ = tile.columns;
  // A panel of B fits in the L1 cache, a block of A in L2, a block of B in this thread's share of
  // L3. Slices of k have almost equal lengths, so the last one is not short.
  constexpr int64_t kPanelBytes = 24 << 10;
  constexpr int64_t kRow = sizeof(float);
  const int64_t deepest = kPanelBytes / (kRow * columns_);
  const int64_t slices = (shape.k + deepest - 1) / deepest;
  block_k_ = std::min(round_up((shape.k + slices - 1) / slices, 8), shape.k);
  block_m_ = std::max<int64_t>(cpu.l2_bytes / 2 / (kRow * block_k_) / rows_, 1) * rows_;
  const int64_t share = std::clamp<int64_t>(cpu.l3_bytes / (2 * threads), 1 << 20, 4 << 20);
  block_n_ = std::max<int64_t>(share / (kRow * block_k_) / columns_, 1) * columns_;

  const auto tiles_m = (shape.m + rows_ - 1) / rows_, tiles_n = (shape.n + columns_ - 1) / columns_;
  const int64_t parts = std::max<int64_t>(1, threads / std::min<int64_t>(threads, shape.batch));
  // Threads are divided among the batch first; the remaining factor divides each GEMM.
  std::tie(grid_m_, grid_n_) =
      // With few rows of A, B is read once and nothing is packed, so only columns are divided.
      few_rows_ ? std::pair{int64_t{1}, parts} : choose_grid(tiles_m, tiles_n, parts);
  part_m_ = (tiles_m + grid_m_ - 1) / grid_m_ * rows_;
  part_n_ = (tiles_n + grid_n_ - 1) / grid_n_ * columns_;
  block_m_ = std::min(block_m_, part_m_);
  block_n_ = std::min(block_n_, part_n_);
}

int64_t TiledProduct::workspace_bytes() const {
  if (few_rows_) return 0;
  // f32 blocks of A and B, and of C if it is rounded after the last slice of k.
  int64_t floats = round_up(block_m_ * block_k_, 16) + round_up(block_n_ * block_k_, 16);
  if (shape_.c != DType::kF32) floats += round_up(part_m_ * block_n_, 16);
  return bytes_for<float>(floats) * threads_;
}

int64_t TiledProduct::packed_bytes() const {
  return round_up(shape_.n, columns_) * shape_.k * size_of(shape_.b);
}

void TiledProduct::pack(const void* b, void* packed) const {
  const int64_t panels = (shape_.n + columns_ - 1) / columns_;
  const int64_t row = shape_.transpose_b ? shape_.ldb : 1,
                step = shape_.transpose_b ? 1 : shape_.ldb;
#pragma omp parallel for schedule(static) num_threads(threads_)
  for (int64_t panel = 0; panel < panels; ++panel) {
    const int64_t first = panel * columns_;
    HWY_DYNAMIC_DISPATCH(pack_panels_of)
    (PanelSource{b, shape_.b, row, step}, first, std::min<int64_t>(columns_, shape_.n - first),
     shape_.k, element(packed, shape_.b, first * shape_.k));
  }
}

void TiledProduct::run(const void* a, const void* b, void* c, void* workspace, bool add) const {
  const int64_t tasks = shape_.batch * grid_m_ * grid_n_;
  const int64_t share = workspace_bytes() / threads_;
#pragma omp parallel for schedule(static) num_threads(threads_)
  for (int64_t task = 0; task < tasks; ++task) {
    const int64_t product = task / (grid_m_ * grid_n_);
    const int64_t i = task / grid_n_ % grid_m_, j = task % grid_n_;
    PartOfProduct part;
    part.shape = &shape_;
    part.add = add;
    part.a = element(a, shape_.a, product * shape_.stride_a);
    part.b = element(b, shape_.b, product * shape_.stride_b);
    part.c = element(c, shape_.c, product * shape_.stride_c);
    part.m_begin = std::min(i * part_m_, shape_.m);
    part.m_end = std::min(part.m_begin + part_m_, shape_.m);
    part.n_begin = std::min(j * part_n_, shape_.n);
    part.n_end = std::min(part.n_begin + part_n_, shape_.n);
    part.block_m = block_m_;
    part.block_n = block_n_;
    part.block_k = block_k_;
    part.workspace =
        reinterpret_cast<float*>(element(workspace, DType::kU8, share * omp_get_thread_num()));
    if (few_rows_) {
      HWY_DYNAMIC_DISPATCH(multiply_few_rows)(part);
    } else {
      HWY_DYNAMIC_DISPATCH(run_part)(part);
    }
  }
}

}  // namespace tessera::kernels

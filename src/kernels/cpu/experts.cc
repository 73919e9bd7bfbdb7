// The experts on the CPU. Tiles run one after another, with all threads on each of them: a tile has
// up to 512 rows, so its GEMMs are large, and sums keep their order without a buffer of all rows. A
// prepared GEMM has a fixed number of rows, so there is one for each of a few sizes. The rows of an
// expert are divided into tiles of these sizes; missing rows are zeros. Workspace:
//
//   [ starts | order | sums f32 [N, H] | tile: x, dy, pairs, h, dh, out f32 | scratch of GEMMs ]
//                      unless y is f32         dy and dh: in the gradient
#include "kernels/experts.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <vector>

#include "base/error.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/sum.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/experts_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/experts_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(AddScaledRow);
HWY_EXPORT(DotAndScale);

namespace {

constexpr int64_t kMostRows = 512, kLeastRows = 16;
constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Returns 16, 24, 32, 48, … up to the number of tokens (rounded up to 16) or 512.
std::vector<int64_t> tile_sizes(int64_t tokens) {
  const int64_t most = std::min(kMostRows, (tokens + kLeastRows - 1) / kLeastRows * kLeastRows);
  std::vector<int64_t> sizes;
  for (int64_t n = kLeastRows; n < most; n *= 2) {
    sizes.push_back(n);
    if (n + n / 2 < most) sizes.push_back(n + n / 2);
  }
  sizes.push_back(most);
  return sizes;
}

// The GEMMs of a tile with a given number of rows.
struct TileProducts {
  int64_t rows;
  std::optional<Matmul> up, down;                   // forward
  std::optional<Matmul> dh, d_down, dx_rows, d_up;  // gradient

  TileProducts(const ExpertsShape& s, int64_t n, const CpuFeatures& cpu, int threads) : rows(n) {
    const int64_t H = s.hidden, I = s.inner;
    const auto product = [&](std::optional<Matmul>& made, int64_t m, int64_t columns, int64_t k,
                             bool transpose_a, bool transpose_b, DType c) {
      made.emplace(MatmulShape{.m = m,
                               .n = columns,
                               .k = k,
                               .transpose_a = transpose_a,
                               .transpose_b = transpose_b,
                               .accumulate = transpose_a,
                               .a = s.dtype,
                               .b = s.dtype,
                               .c = c},
                   cpu, threads);
    };
    if (!s.gradient || !s.pairs) product(up, n, 2 * I, H, false, true, s.dtype);
    if (!s.gradient) {
      product(down, n, H, I, false, true, DType::kF32);
      return;
    }
    product(dh, n, I, H, false, false, s.dtype);
    product(d_down, H, I, n, true, false, s.sums);
    product(dx_rows, n, H, 2 * I, false, false, DType::kF32);
    product(d_up, 2 * I, H, n, true, false, s.sums);
  }

  int64_t workspace_bytes() const {
    int64_t bytes = 0;
    for (const auto* p : {&up, &down, &dh, &d_down, &dx_rows, &d_up})
      if (*p) bytes = std::max(bytes, (*p)->workspace_bytes());
    return bytes;
  }
};

// A range of the workspace.
struct Region {
  int64_t offset = 0;
  template <class T>
  T* in(std::byte* workspace) const {
    return reinterpret_cast<T*>(workspace + offset);
  }
};

}  // namespace

struct CpuExperts::Plan {
  ExpertsShape shape;
  int threads;
  std::vector<TileProducts> products;
  Region starts, order, sums, x, dy, pairs, h, dh, out, scratch;
  int64_t bytes = 0;

  Plan(const ExpertsShape& s, const CpuFeatures& cpu, int team);

  int64_t pair_count() const { return shape.tokens * shape.chosen; }
  int64_t row_bytes(int64_t columns) const { return columns * size_of(shape.dtype); }
  // Lists the pairs of a token and a choice by expert, then by token.
  void sort(const ExpertsOperands& o, std::byte* w) const;
  const TileProducts& for_rows(int64_t rows) const;

  struct Tile {
    const TileProducts* products;
    int64_t expert, rows;
    const int64_t* pairs;  // token · K + choice, by row
    bool first;            // the first tile of its expert
  };
  void run_tile(const ExpertsOperands& o, const Tile& t, float* to, std::byte* w) const;
  void gradient_of_tile(const ExpertsOperands& o, const Tile& t, float* to, std::byte* w) const;
  void gather(const Tile& t, const void* from, std::byte* to) const;
  void get_pairs(const ExpertsOperands& o, const Tile& t, std::byte* w) const;
  void move_pairs(const ExpertsOperands& o, const Tile& t, std::byte* rows, bool save) const;
  void add_bias(const ExpertsOperands& o, const Tile& t, std::byte* w) const;
  void activate(const Tile& t, std::byte* w) const;
  void add_rows(const Tile& t, const float* factors, float* to, std::byte* w) const;
  void clear_unused(const ExpertsOperands& o, int64_t expert) const;
  void clear_dropped(const ExpertsOperands& o) const;
  TensorView view(std::byte* data, const Tile& t, int64_t columns, bool paired) const;
  BiasGradArgs bias_gradient(std::byte* rows_of_pairs, int64_t rows, void* to) const;
};

CpuExperts::Plan::Plan(const ExpertsShape& s, const CpuFeatures& cpu, int team)
    : shape(s), threads(team) {
  int64_t scratch_bytes = 0;
  const std::vector<int64_t> sizes = tile_sizes(s.tokens);
  products.reserve(sizes.size());
  for (const int64_t n : sizes) {
    products.emplace_back(s, n, cpu, team);
    scratch_bytes = std::max(scratch_bytes, products.back().workspace_bytes());
  }
  const auto region = [&](Region& r, int64_t size, bool there = true) {
    r.offset = bytes;
    if (there) bytes += aligned(size);
  };
  const int64_t rows = sizes.back(), f32 = size_of(DType::kF32);
  if (s.gradient)
    scratch_bytes =
        std::max(scratch_bytes, kernels::workspace_bytes(Cpu(), bias_gradient({}, rows, {}), team));
  region(starts, (s.experts + 1) * static_cast<int64_t>(sizeof(int64_t)));
  region(order, pair_count() * static_cast<int64_t>(sizeof(int64_t)));
  region(sums, s.tokens * s.hidden * f32, s.dtype != DType::kF32);
  region(x, rows * row_bytes(s.hidden));
  region(dy, rows * row_bytes(s.hidden), s.gradient);
  region(pairs, rows * row_bytes(2 * s.inner));
  region(h, rows * row_bytes(s.inner));
  region(dh, rows * row_bytes(s.inner), s.gradient);
  region(out, rows * s.hidden * f32);
  region(scratch, scratch_bytes);
}

void CpuExperts::Plan::sort(const ExpertsOperands& o, std::byte* w) const {
  auto* const begins = starts.in<int64_t>(w);
  auto* const sorted = order.in<int64_t>(w);
  const auto local = [&](int64_t pair) { return static_cast<int64_t>(o.choice[pair]) - o.first; };
  const auto is_local = [&](int64_t e) { return e >= 0 && e < shape.experts; };
  std::fill_n(begins, shape.experts + 1, int64_t{0});
  for (int64_t i = 0; i < pair_count(); ++i)
    if (const int64_t e = local(i); is_local(e)) ++begins[e + 1];
  for (int64_t e = 0; e < shape.experts; ++e) begins[e + 1] += begins[e];
  // The loop advances each start to the start of the next expert; the starts are then shifted back.
  for (int64_t i = 0; i < pair_count(); ++i)
    if (const int64_t e = local(i); is_local(e)) sorted[begins[e]++] = i;
  for (int64_t e = shape.experts; e > 0; --e) begins[e] = begins[e - 1];
  begins[0] = 0;
}

// Returns the GEMMs of the smallest size >= rows if at most an eighth of its rows is unused, else
// those of the next smaller size.
const TileProducts& CpuExperts::Plan::for_rows(int64_t rows) const {
  constexpr int64_t kWaste = 8;
  const auto larger = std::find_if(products.begin(), products.end(),
                                   [&](const TileProducts& p) { return p.rows >= rows; });
  if (larger == products.end()) return products.back();
  const bool wastes = larger->rows - rows > rows / kWaste;
  return wastes && larger != products.begin() ? *std::prev(larger) : *larger;
}

TensorView CpuExperts::Plan::view(std::byte* data, const Tile& t, int64_t columns,
                                  bool paired) const {
  const int64_t n = t.products->rows;
  return {data, shape.dtype, paired ? Shape{n, columns, 2} : Shape{n, columns}};
}

// Copies the tile's rows of `from` [N, H]; missing rows become zeros.
void CpuExperts::Plan::gather(const Tile& t, const void* from, std::byte* to) const {
  const auto bytes_of_row = static_cast<size_t>(row_bytes(shape.hidden));
  parallel_rows(t.products->rows, shape.hidden, threads, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      std::byte* const row = to + static_cast<size_t>(r) * bytes_of_row;
      if (r >= t.rows) {
        std::memset(row, 0, bytes_of_row);
        continue;
      }
      const auto token = static_cast<size_t>(t.pairs[r] / shape.chosen);
      std::memcpy(row, static_cast<const std::byte*>(from) + token * bytes_of_row, bytes_of_row);
    }
  });
}

// Copies the tile's pairs to the saved pairs of all tokens (`save`) or from them.
void CpuExperts::Plan::move_pairs(const ExpertsOperands& o, const Tile& t, std::byte* rows,
                                  bool save) const {
  const auto n = static_cast<size_t>(row_bytes(2 * shape.inner));
  auto* const all = static_cast<std::byte*>(o.pairs);
  parallel_rows(t.products->rows, 2 * shape.inner, threads, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      std::byte* const row = rows + static_cast<size_t>(r) * n;
      if (r >= t.rows) {
        if (!save) std::memset(row, 0, n);
        continue;
      }
      std::byte* const kept = all + static_cast<size_t>(t.pairs[r]) * n;
      std::memcpy(save ? kept : row, save ? row : kept, n);
    }
  });
}

void CpuExperts::Plan::get_pairs(const ExpertsOperands& o, const Tile& t, std::byte* w) const {
  auto* const rows = pairs.in<std::byte>(w);
  if (shape.gradient && shape.pairs) return move_pairs(o, t, rows, false);
  const auto* const up =
      static_cast<const std::byte*>(o.up) + t.expert * row_bytes(2 * shape.inner * shape.hidden);
  t.products->up->run({.workspace = scratch.in<void>(w)}, {x.in<void>(w), up, rows});
  if (o.up_bias != nullptr) add_bias(o, t, w);
  if (shape.pairs) move_pairs(o, t, rows, true);
}

// Adds the expert's bias to the pairs, without the missing rows: those stay zero.
void CpuExperts::Plan::add_bias(const ExpertsOperands& o, const Tile& t, std::byte* w) const {
  const int64_t n = 2 * shape.inner;
  const TensorView p = {pairs.in<std::byte>(w), shape.dtype, {t.rows, n}};
  auto* const all = static_cast<std::byte*>(const_cast<void*>(o.up_bias));
  const TensorView bias = {all + t.expert * row_bytes(n), shape.dtype, {n}};
  SumArgs sum;
  sum.terms.push_back(p);
  sum.biases.push_back(bias);
  sum.out = p;
  launch(Cpu(), {.threads = threads}, sum);
}

BiasGradArgs CpuExperts::Plan::bias_gradient(std::byte* rows_of_pairs, int64_t rows,
                                             void* to) const {
  const int64_t n = 2 * shape.inner;
  return {{rows_of_pairs, shape.dtype, {rows, n}}, {to, shape.sums, {n}}};
}

void CpuExperts::Plan::activate(const Tile& t, std::byte* w) const {
  launch(Cpu(), {.threads = threads},
         GatedActivationArgs{shape.gate, view(pairs.in<std::byte>(w), t, shape.inner, true),
                             view(h.in<std::byte>(w), t, shape.inner, false)});
}

// Adds the rows of `out`, times their factors (nullptr: 1), to the rows of their tokens. A tile
// contains a token at most once.
void CpuExperts::Plan::add_rows(const Tile& t, const float* factors, float* to,
                                std::byte* w) const {
  const float* const rows = out.in<float>(w);
  const auto add = &HWY_DYNAMIC_DISPATCH(AddScaledRow);
  parallel_rows(t.rows, shape.hidden, threads, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      add({to + t.pairs[r] / shape.chosen * shape.hidden,
           {rows + r * shape.hidden, DType::kF32},
           factors == nullptr ? 1.0f : factors[t.pairs[r]],
           shape.hidden});
  });
}

void CpuExperts::Plan::run_tile(const ExpertsOperands& o, const Tile& t, float* to,
                                std::byte* w) const {
  gather(t, o.x, x.in<std::byte>(w));
  get_pairs(o, t, w);
  activate(t, w);
  const auto* const down =
      static_cast<const std::byte*>(o.down) + t.expert * row_bytes(shape.hidden * shape.inner);
  t.products->down->run({.workspace = scratch.in<void>(w)}, {h.in<void>(w), down, out.in<void>(w)});
  add_rows(t, o.weights, to, w);
}

// With the rows D of dy: dh = D down, dw = <dh, h>; h and dh are then multiplied by w;
// ddown += Dᵀ h, dp = gate'(p) dh, dup_bias += Σ dp, dup += dpᵀ x, dx = dp up.
void CpuExperts::Plan::gradient_of_tile(const ExpertsOperands& o, const Tile& t, float* to,
                                        std::byte* w) const {
  const Launch with_scratch = {.workspace = scratch.in<void>(w)};
  const int64_t H = shape.hidden, I = shape.inner, sum = size_of(shape.sums);
  const auto of_expert = [&](const void* all, int64_t elements) {
    return static_cast<const std::byte*>(all) + t.expert * row_bytes(elements);
  };
  gather(t, o.x, x.in<std::byte>(w));
  gather(t, o.dy, dy.in<std::byte>(w));
  get_pairs(o, t, w);
  activate(t, w);
  t.products->dh->run(with_scratch, {dy.in<void>(w), of_expert(o.down, H * I), dh.in<void>(w)});
  const auto scale = &HWY_DYNAMIC_DISPATCH(DotAndScale);
  const Sink of_h(h.in<void>(w), shape.dtype), of_dh(dh.in<void>(w), shape.dtype);
  parallel_rows(t.rows, I, threads, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      o.d_weights[t.pairs[r]] = scale({of_h + r * I, of_dh + r * I, o.weights[t.pairs[r]], I});
  });
  if (o.d_down != nullptr)
    t.products->d_down->run(
        with_scratch,
        {dy.in<void>(w), h.in<void>(w), static_cast<std::byte*>(o.d_down) + t.expert * H * I * sum,
         o.fresh_down && t.first});
  const TensorView p = view(pairs.in<std::byte>(w), t, I, true);
  launch(Cpu(), {.threads = threads},
         GatedActivationGradArgs{shape.gate, p, view(dh.in<std::byte>(w), t, I, false), p});
  if (o.d_up_bias != nullptr) {
    auto* const own = static_cast<std::byte*>(o.d_up_bias) + t.expert * 2 * I * sum;
    if (o.fresh_up_bias && t.first)
      launch(Cpu(), {.threads = threads}, ClearArgs{{own, shape.sums, {2 * I}}});
    launch(Cpu(), {.workspace = scratch.in<void>(w), .threads = threads},
           bias_gradient(pairs.in<std::byte>(w), t.rows, own));
  }
  if (o.d_up != nullptr)
    t.products->d_up->run(
        with_scratch,
        {p.data, x.in<void>(w), static_cast<std::byte*>(o.d_up) + t.expert * 2 * I * H * sum,
         o.fresh_up && t.first});
  t.products->dx_rows->run(with_scratch, {p.data, of_expert(o.up, 2 * I * H), out.in<void>(w)});
  add_rows(t, nullptr, to, w);
}

// Zeroes the gradients of an expert without tokens if gradients are written instead of added to.
void CpuExperts::Plan::clear_unused(const ExpertsOperands& o, int64_t expert) const {
  const int64_t up = 2 * shape.inner * shape.hidden, down = shape.hidden * shape.inner;
  const auto clear = [&](void* all, int64_t n) {
    std::byte* const own = static_cast<std::byte*>(all) + expert * n * size_of(shape.sums);
    launch(Cpu(), {.threads = threads}, ClearArgs{{own, shape.sums, {n}}});
  };
  if (o.fresh_up) clear(o.d_up, up);
  if (o.fresh_down) clear(o.d_down, down);
  if (o.fresh_up_bias) clear(o.d_up_bias, 2 * shape.inner);
}

// Zeroes the saved pairs that were dropped, so that every output of the forward is written.
void CpuExperts::Plan::clear_dropped(const ExpertsOperands& o) const {
  const auto n = static_cast<size_t>(row_bytes(2 * shape.inner));
  for (int64_t i = 0; i < pair_count(); ++i)
    if (o.choice[i] < 0)
      std::memset(static_cast<std::byte*>(o.pairs) + static_cast<size_t>(i) * n, 0, n);
}

CpuExperts::CpuExperts(const ExpertsShape& s, const CpuFeatures& cpu, int threads) {
  CHECK(s.tokens > 0 && s.hidden > 0 && s.inner > 0 && s.experts > 0 && s.chosen > 0 &&
            s.all_experts >= s.experts && threads > 0,
        "{} of {} experts of {} x {} for {} tokens", s.experts, s.all_experts, s.hidden, s.inner,
        s.tokens);
  plan_ = std::make_unique<Plan>(s, cpu, threads);
}
CpuExperts::~CpuExperts() = default;

int64_t CpuExperts::workspace_bytes() const { return plan_->bytes; }

void CpuExperts::run(const Launch& l, const ExpertsOperands& o) const {
  const Plan& p = *plan_;
  const ExpertsShape& s = p.shape;
  auto* const w = static_cast<std::byte*>(l.workspace);
  p.sort(o, w);
  void* const result = s.gradient ? o.dx : o.y;
  const bool rounds = s.dtype != DType::kF32;
  const TensorView sums = {rounds ? p.sums.in<void>(w) : result, DType::kF32, {s.tokens, s.hidden}};
  launch(Cpu(), {.threads = p.threads}, ClearArgs{sums});
  if (s.gradient) std::fill_n(o.d_weights, p.pair_count(), 0.0f);
  if (s.pairs && !s.gradient) p.clear_dropped(o);
  const auto* const starts = p.starts.in<int64_t>(w);
  for (int64_t e = 0; e < s.experts; ++e) {
    if (s.gradient && starts[e] == starts[e + 1]) p.clear_unused(o, e);
    for (int64_t at = starts[e]; at < starts[e + 1];) {
      const TileProducts& products = p.for_rows(starts[e + 1] - at);
      const Plan::Tile tile = {&products, e, std::min(products.rows, starts[e + 1] - at),
                               p.order.in<int64_t>(w) + at, at == starts[e]};
      if (s.gradient)
        p.gradient_of_tile(o, tile, sums.f32(), w);
      else
        p.run_tile(o, tile, sums.f32(), w);
      at += tile.rows;
    }
  }
  if (rounds)
    launch(Cpu(), {.threads = p.threads}, CastArgs{sums, {result, s.dtype, {s.tokens, s.hidden}}});
}

}  // namespace tessera::kernels

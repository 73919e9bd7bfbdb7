// The LM head and its loss by chunks of tokens on the GPU: logits GEMM, loss and dz per row, then
// the two gradient GEMMs (kernels/linear_cross_entropy.h). Only one chunk of logits exists at a
// time.
//
//   workspace:  [ logits f32 [chunk, pitch] | dz, 16 bits | losses f64 [chunk] | scratch of GEMMs ]
//                 overwritten by dz if f32    only if rounded   and lse^2 with a z-loss
//
// pitch is the vocabulary rounded up to 64: tensor cores then read aligned rows for any vocabulary.
// The loss writes zeros to the padding.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "kernels/gpu/loss.h"
#include "kernels/gpu_products.h"

namespace tessera::kernels {
namespace {

// A chunk reads W twice and reads and writes dW once, so long chunks are efficient; but its f32
// logits and their gradient are the largest scratch of a program.
constexpr int64_t kLongestChunk = 2048, kMostLogitsBytes = 256ll << 20, kAlign = 256;
// Rows of logits and dz start at 16-byte boundaries for any vocabulary, and chunks start at such
// boundaries of x for any width.
constexpr int64_t kRowElements = 64, kChunkRows = 64;

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
int64_t rounded_up(int64_t bytes) { return round_up(bytes, kAlign); }

int64_t pitch_of(const LinearCrossEntropyShape& s) { return round_up(s.vocabulary, kRowElements); }

int64_t choose_chunk(const LinearCrossEntropyShape& s) {
  int64_t rows = s.chunk;
  if (rows == 0) {
    const int64_t fits = kMostLogitsBytes / (pitch_of(s) * size_of(DType::kF32));
    const int64_t longest = std::clamp<int64_t>(fits, kChunkRows, kLongestChunk);
    const int64_t chunks = (s.tokens + longest - 1) / longest;
    rows = (s.tokens + chunks - 1) / chunks;
  }
  return std::min(round_up(rows, kChunkRows), s.tokens);
}

struct Products {
  GpuMatmul logits;
  std::optional<GpuMatmul> dx, dweight;

  Products(const LinearCrossEntropyShape& s, int64_t rows, const GpuBlas& blas)
      : logits({.m = rows,
                .n = s.vocabulary,
                .k = s.hidden,
                .transpose_b = true,
                .a = s.dtype,
                .b = s.dtype,
                .ldc = pitch_of(s)},
               blas) {
    if (!s.gradient) return;
    dx.emplace(MatmulShape{.m = rows,
                           .n = s.hidden,
                           .k = s.vocabulary,
                           .a = s.dtype,
                           .b = s.dtype,
                           .c = s.dtype,
                           .lda = pitch_of(s)},
               blas);
    dweight.emplace(MatmulShape{.m = s.vocabulary,
                                .n = s.hidden,
                                .k = rows,
                                .transpose_a = true,
                                .accumulate = true,
                                .a = s.dtype,
                                .b = s.dtype,
                                .c = s.sums,
                                .lda = pitch_of(s)},
                    blas);
  }
  int64_t workspace_bytes() const {
    int64_t bytes = logits.workspace_bytes();
    if (dx) bytes = std::max({bytes, dx->workspace_bytes(), dweight->workspace_bytes()});
    return bytes;
  }
};

}  // namespace

struct GpuLinearCrossEntropy::Plan {
  LinearCrossEntropyShape shape;
  int64_t chunk;
  Products whole;
  std::optional<Products> rest;                             // for the last chunk, if it is shorter
  int64_t rounded = 0, losses = 0, scratch = 0, bytes = 0;  // offsets in the workspace

  Plan(const LinearCrossEntropyShape& s, const GpuBlas& blas)
      : shape(s), chunk(choose_chunk(s)), whole(s, chunk, blas) {
    if (s.tokens % chunk != 0) rest.emplace(s, s.tokens % chunk, blas);
    const int64_t logits = chunk * pitch_of(s);
    rounded = rounded_up(logits * size_of(DType::kF32));
    losses = rounded + (rounds() ? rounded_up(logits * size_of(s.dtype)) : 0);
    scratch = losses + rounded_up(chunk * numbers_per_row(s.extras) * size_of(DType::kF64));
    bytes = scratch + std::max(whole.workspace_bytes(), rest ? rest->workspace_bytes() : 0);
  }
  bool rounds() const { return shape.gradient && shape.dtype != DType::kF32; }

  void run_chunk(Stream s, const LinearCrossEntropyOperands& o, int64_t first,
                 std::byte* workspace) const {
    const int64_t rows = std::min(chunk, shape.tokens - first);
    const Products& p = rows == chunk ? whole : *rest;
    const int64_t offset = first * shape.hidden * size_of(shape.dtype);
    const std::byte* const x = static_cast<const std::byte*>(o.x) + offset;
    const Launch with_rest = {s, workspace + scratch};
    p.logits.run(with_rest, {x, o.weight, workspace});
    std::byte* const dz = rounds() ? workspace + rounded : workspace;
    gpu::LossWork w;
    w.z = reinterpret_cast<float*>(workspace);
    w.rows = rows;
    w.width = pitch_of(shape);
    w.columns = w.total = shape.vocabulary;
    w.vector = true;
    w.labels = o.labels + first;
    w.losses = reinterpret_cast<double*>(workspace + losses);
    w.extras = shape.extras;
    w.squares = shape.extras.z_loss > 0 ? w.losses + chunk : nullptr;
    w.report = o.report;
    w.z_report = o.z_report;
    w.gradient = shape.gradient;
    w.soft_cap = shape.soft_cap;
    w.dz = {dz, rounds() ? shape.dtype : DType::kF32};
    w.scale = o.gradient_scale;
    w.loss_scale = o.loss_scale;
    gpu::launch_loss(w, s);
    if (!shape.gradient) return;
    p.dx->run(with_rest, {dz, o.weight, static_cast<std::byte*>(o.dx) + offset});
    if (o.dweight != nullptr) p.dweight->run(with_rest, {dz, x, o.dweight, o.fresh && first == 0});
  }
};

GpuLinearCrossEntropy::GpuLinearCrossEntropy(const LinearCrossEntropyShape& shape,
                                             const GpuBlas& blas)
    : plan_(std::make_unique<Plan>(shape, blas)) {}
GpuLinearCrossEntropy::~GpuLinearCrossEntropy() = default;

int64_t GpuLinearCrossEntropy::workspace_bytes() const { return plan_->bytes; }

void GpuLinearCrossEntropy::run(const Launch& l, const LinearCrossEntropyOperands& o) const {
  for (int64_t first = 0; first < plan_->shape.tokens; first += plan_->chunk)
    plan_->run_chunk(l.stream, o, first, static_cast<std::byte*>(l.workspace));
}

}  // namespace tessera::kernels

// The LM head with its loss, chunk by chunk, on the CPU: logits GEMM, loss_of_rows, then the two
// gradient GEMMs while the chunk's dz is in cache or memory. Only one chunk of logits exists at a
// time, so the head's scratch is [chunk, V] instead of [N, V].
// Workspace:  [ logits f32 [chunk, V] | dz of x's type | losses f64 [chunk] | scratch of GEMMs ]
//               overwritten by dz in f32   only if rounded   and lse^2 with a z-loss
#include "kernels/linear_cross_entropy.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/error.h"
#include "kernels/cpu/softmax_loss.h"
#include "kernels/cross_entropy.h"
#include "kernels/matmul.h"

namespace tessera::kernels {
namespace {

// A chunk reads W twice and reads and writes dW once, so it should be long: measured at a width of
// 512, the head reaches 85, 89, 91 and 92 % of the matrix rate with 128, 256, 512 and 1024 tokens.
// But its logits are the largest scratch of a program.
constexpr int64_t kLongestChunk = 512, kShortestChunk = 64;
constexpr int64_t kMostLogits_bytes = 128 << 20;
constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

int64_t choose_chunk(const LinearCrossEntropyShape& s) {
  if (s.chunk > 0) return std::min(s.chunk, s.tokens);
  const int64_t fits = kMostLogits_bytes / (s.vocabulary * size_of(DType::kF32));
  const int64_t longest = std::clamp(fits, kShortestChunk, kLongestChunk);
  // Chunks of almost equal length, so that no short one computes inefficiently.
  const int64_t chunks = (s.tokens + longest - 1) / longest;
  return (s.tokens + chunks - 1) / chunks;
}

// The three GEMMs of a chunk, prepared for one chunk length.
struct Products {
  Matmul logits;
  std::optional<Matmul> dx, dweight;

  Products(const LinearCrossEntropyShape& s, int64_t rows, const CpuFeatures& cpu, int threads)
      : logits({.m = rows,
                .n = s.vocabulary,
                .k = s.hidden,
                .transpose_b = true,
                .a = s.dtype,
                .b = s.dtype},
               cpu, threads) {
    if (!s.gradient) return;
    dx.emplace(
        MatmulShape{
            .m = rows, .n = s.hidden, .k = s.vocabulary, .a = s.dtype, .b = s.dtype, .c = s.dtype},
        cpu, threads);
    dweight.emplace(MatmulShape{.m = s.vocabulary,
                                .n = s.hidden,
                                .k = rows,
                                .transpose_a = true,
                                .accumulate = true,
                                .a = s.dtype,
                                .b = s.dtype,
                                .c = s.sums},
                    cpu, threads);
  }

  int64_t workspace_bytes() const {
    int64_t bytes = logits.workspace_bytes();
    if (dx) bytes = std::max({bytes, dx->workspace_bytes(), dweight->workspace_bytes()});
    return bytes;
  }
};

}  // namespace

struct LinearCrossEntropy::Plan {
  LinearCrossEntropyShape shape;
  int threads;
  int64_t chunk;
  Products whole;
  std::optional<Products> rest;  // for the last chunk if it is shorter
  // Offsets in the workspace, after the logits.
  int64_t rounded = 0, losses = 0, scratch = 0, bytes = 0;

  Plan(const LinearCrossEntropyShape& s, const CpuFeatures& cpu, int team)
      : shape(s), threads(team), chunk(choose_chunk(s)), whole(s, chunk, cpu, team) {
    if (s.tokens % chunk != 0) rest.emplace(s, s.tokens % chunk, cpu, team);
    const int64_t logits = chunk * s.vocabulary;
    rounded = aligned(logits * size_of(DType::kF32));
    const bool rounds = s.gradient && s.dtype != DType::kF32;
    losses = rounded + (rounds ? aligned(logits * size_of(s.dtype)) : 0);
    scratch = losses + aligned(chunk * numbers_per_row(s.extras) * size_of(DType::kF64));
    bytes = scratch + std::max(whole.workspace_bytes(), rest ? rest->workspace_bytes() : 0);
  }

  void run_chunk(const LinearCrossEntropyOperands& o, int64_t first, std::byte* workspace) const;
};

void LinearCrossEntropy::Plan::run_chunk(const LinearCrossEntropyOperands& o, int64_t first,
                                         std::byte* workspace) const {
  const int64_t rows = std::min(chunk, shape.tokens - first);
  const Products& products = rows == chunk ? whole : *rest;
  const int64_t offset = first * shape.hidden * size_of(shape.dtype);
  const std::byte* const x = static_cast<const std::byte*>(o.x) + offset;
  const Launch with_rest = {.workspace = workspace + scratch};
  products.logits.run(with_rest, {x, o.weight, workspace});
  // In f32, dz overwrites the logits; else it is rounded into a second buffer, once.
  const bool rounds = shape.dtype != DType::kF32;
  auto* const loss = reinterpret_cast<double*>(workspace + losses);
  loss_of_rows({.logits = reinterpret_cast<float*>(workspace),
                .labels = o.labels + first,
                .losses = loss,
                .squares = shape.extras.z_loss > 0 ? loss + chunk : nullptr,
                .rows = rows,
                .columns = shape.vocabulary,
                .gradient = shape.gradient,
                .soft_cap = shape.soft_cap,
                .extras = shape.extras,
                .rounded = rounds ? Sink(workspace + rounded, shape.dtype) : Sink(),
                .gradient_scale = scaled_by(o.gradient_scale, o.loss_scale)},
               o.report, o.z_report, threads);
  if (!shape.gradient) return;
  const std::byte* const dz = rounds ? workspace + rounded : workspace;
  products.dx->run(with_rest, {dz, o.weight, static_cast<std::byte*>(o.dx) + offset});
  // The first chunk may write dW (fresh); the others add to it, in order.
  if (o.dweight != nullptr)
    products.dweight->run(with_rest, {dz, x, o.dweight, o.fresh && first == 0});
}

LinearCrossEntropy::LinearCrossEntropy(const LinearCrossEntropyShape& shape, const CpuFeatures& cpu,
                                       int threads) {
  CHECK(shape.tokens > 0 && shape.hidden > 0 && shape.vocabulary > 0 && threads > 0,
        "linear_cross_entropy of {} tokens, {} wide, vocabulary {}", shape.tokens, shape.hidden,
        shape.vocabulary);
  plan_ = std::make_unique<Plan>(shape, cpu, threads);
}

LinearCrossEntropy::~LinearCrossEntropy() = default;
LinearCrossEntropy::LinearCrossEntropy(LinearCrossEntropy&&) noexcept = default;
LinearCrossEntropy& LinearCrossEntropy::operator=(LinearCrossEntropy&&) noexcept = default;

int64_t LinearCrossEntropy::chunk() const { return plan_->chunk; }
int64_t LinearCrossEntropy::workspace_bytes() const { return plan_->bytes; }

void LinearCrossEntropy::run(const Launch& l, const LinearCrossEntropyOperands& operands) const {
  for (int64_t first = 0; first < plan_->shape.tokens; first += plan_->chunk)
    plan_->run_chunk(operands, first, static_cast<std::byte*>(l.workspace));
}

}  // namespace tessera::kernels

#include "plan/op_time.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "ir/rule.h"

namespace tessera {
namespace {

// Rows and columns that one processor computes at once, and the share of the rate of large tiles
// that it reaches: smaller tiles read more for each operation. Sizes are those that cuBLAS and
// CUTLASS ship; shares are of this order on A100 (CUTLASS profiler) and not fitted.
struct Tile {
  int64_t rows, columns;
  double share;
};
constexpr std::array kTiles = {Tile{256, 128, 1.0}, Tile{128, 256, 1.0}, Tile{128, 128, 0.93},
                               Tile{64, 128, 0.75}, Tile{128, 64, 0.75}, Tile{64, 64, 0.55}};
constexpr std::array<int64_t, 4> kSplits = {1, 2, 4, 8};  // of k, over processors
// Filling the pipeline of a tile and writing it back take as long as so many steps of k.
constexpr double kTileOverhead = 200;

double rate_of(DType type, const DeviceFigures& d) {
  return type == DType::kF32 ? d.fp32_flops_per_s : d.bf16_flops_per_s;
}

double rate_of(const ProductShape& s, const DeviceFigures& d) {
  return s.fp8 && d.fp8_flops_per_s > 0 ? d.fp8_flops_per_s : rate_of(s.type, d);
}

double sweep_s(double bytes, const DeviceFigures& d) {
  return bytes / (d.memory_bytes_per_s * d.memory_efficiency);
}

double ceil_div(int64_t a, int64_t b) {
  const int64_t quotient = (a + b - 1) / b;
  return static_cast<double>(quotient);
}

double tiled_s(const ProductShape& s, const Tile& tile, int64_t split, const DeviceFigures& d) {
  const auto processors = static_cast<double>(d.processors);
  const double blocks =
      static_cast<double>(s.batch * split) * ceil_div(s.m, tile.rows) * ceil_div(s.n, tile.columns);
  const double depth = static_cast<double>(s.k) / static_cast<double>(split) + kTileOverhead;
  const double one = 2 * static_cast<double>(tile.rows * tile.columns) * depth * processors /
                     (rate_of(s, d) * d.matrix_efficiency * tile.share);
  // Processors that run out of tiles first leave clock and bandwidth to the others: half of what
  // a last wave that is not full would cost.
  const double waves = blocks / processors;
  const double effective = waves < 1 ? 1 : 0.5 * (std::ceil(waves) + waves);
  const double sums =
      split == 1
          ? 0
          : sweep_s(8.0 * static_cast<double>(split) * static_cast<double>(s.batch * s.m * s.n), d);
  return effective * one + sums;
}

double log_distance(const MeasuredProduct& r, const ProductShape& s) {
  const auto part = [](int64_t a, int64_t b) {
    const double x =
        std::log(static_cast<double>(a) / static_cast<double>(std::max<int64_t>(b, 1)));
    return x * x;
  };
  return part(r.m, s.m) + part(r.n, s.n) + part(r.k, s.k);
}

// The rate between measured shapes: weights fall with the square of the distance in log m, n, k.
double measured_rate(const ProductShape& s, const DeviceFigures& d) {
  double weights = 0, sum = 0;
  for (const MeasuredProduct& r : d.products) {
    if (r.kind != s.kind || r.type != name_of(s.type)) continue;
    const double w = 1 / (log_distance(r, s) + 1e-3);
    weights += w;
    sum += w * std::log(r.flops_per_s);
  }
  return weights > 0 ? std::exp(sum / weights) : 0;
}

// The two operands over all pairs of positions of the parts of attention: [T, T] and [T, D].
std::vector<ProductShape> pair_products(const Op& op, ValueSpan values) {
  const bool scores =
      op.kind == OpKind::kAttentionScores || op.kind == OpKind::kAttentionScoresGrad;
  const Value& qkv = values[op.inputs[scores ? 0 : 1]];
  const Shape& q = qkv.shape;
  const int64_t batch = q[0] * q[2] * (q[3] - 2), T = q[1], D = q[4];
  const ProductShape wide{batch, T, T, D, qkv.dtype, "forward"};
  const ProductShape deep{batch, T, D, T, qkv.dtype, "input gradient"};
  switch (op.kind) {
    case OpKind::kAttentionScores:
      return {wide};
    case OpKind::kAttentionMix:
      return {deep};
    case OpKind::kAttentionScoresGrad:
      return {deep, deep};
    default:
      return {wide, deep};
  }
}

// The head's products by chunks of tokens; then the logits are read and written by their loss.
double linear_cross_entropy_s(const Op& op, ValueSpan values, const DeviceFigures& d) {
  const Shape &x = values[op.inputs[0]].shape, &w = values[op.inputs[1]].shape;
  const DType type = values[op.inputs[0]].dtype;
  const int64_t F = w[-1], V = w[0], tokens = x.elements() / F,
                chunk = std::min(tokens, kHeadChunk);
  double s = product_s({1, chunk, V, F, type, "forward"}, d);
  if (op.attributes.integer("gradient"))
    s += product_s({1, chunk, F, V, type, "input gradient"}, d) +
         product_s({1, V, F, chunk, type, "weight gradient"}, d);
  s += sweep_s(2.0 * static_cast<double>(chunk * V * size_of(DType::kF32)), d);
  return s * static_cast<double>(tokens) / static_cast<double>(chunk);
}

double kernels_of(std::string_view name, const Software& software) {
  const auto found = software.kernels.find(name);
  return found == software.kernels.end() ? 1.0 : static_cast<double>(found->second);
}

// Of its type, else of any; 0: not measured.
double measured_rate(const Op& op, ValueSpan values, const OpRates& rates) {
  if (rates.empty()) return 0;
  auto found = rates.find(rate_key(op, values));
  if (found == rates.end()) found = rates.find(rule_of(op.kind).name);
  return found == rates.end() ? 0 : found->second;
}

double moved_s(const Op& op, ValueSpan values, const DeviceFigures& d) {
  const double measured = measured_rate(op, values, d.op_bytes_per_s);
  const double bytes = moved_bytes(op, values);
  return measured > 0 ? bytes / measured : sweep_s(bytes, d);
}

}  // namespace

bool communicates(OpKind kind) {
  return kind == OpKind::kAllReduce || kind == OpKind::kReduceScatter ||
         kind == OpKind::kAllGather || kind == OpKind::kSend || kind == OpKind::kReceive;
}

ProductShape product_of(const Op& op, ValueSpan values) {
  const Shape &a = values[op.inputs[0]].shape, &b = values[op.inputs[1]].shape;
  const auto contract = static_cast<int>(op.attributes.integer("contract", 1));
  ProductShape s;
  s.type = values[op.inputs[0]].dtype;
  s.fp8 = op.attributes.has("fp8");
  if (op.kind == OpKind::kMatmulGradWeight) {
    s.kind = "weight gradient";
    s.k = b.product(0, b.rank() - contract);
    s.m = a.elements() / s.k;
    s.n = b.elements() / s.k;
    return s;
  }
  const int64_t out = b.product(0, b.rank() - contract), in = b.elements() / out;
  const bool forward = op.kind == OpKind::kMatmul;
  s.kind = forward ? "forward" : "input gradient";
  s.n = forward ? out : in;
  s.k = forward ? in : out;
  s.m = a.elements() / s.k;
  return s;
}

// What cost_of counts once may move twice, and of a table only the rows that are looked up move.
double moved_bytes(const Op& op, ValueSpan values) {
  if (op.kind == OpKind::kEmbedding)
    return 2.0 * static_cast<double>(values[op.outputs[0]].bytes());
  if (op.kind == OpKind::kEmbeddingGrad) {
    double dy = 0;
    for (const ValueId v : op.inputs)
      if (values[v].dtype != DType::kI32) dy += static_cast<double>(values[v].bytes());
    return 3 * dy;
  }
  double bytes = cost_of(op, values).bytes;
  if (op.kind == OpKind::kAdamw)  // moments and masters are read and written
    for (size_t i = 1; i < op.outputs.size(); ++i)
      bytes += static_cast<double>(values[op.outputs[i]].bytes());
  return bytes;
}

std::string rate_key(const Op& op, ValueSpan values) {
  for (const std::vector<ValueId>* operands : {&op.inputs, &op.outputs})
    for (const ValueId v : *operands) {
      const DType t = values[v].dtype;
      if (t == DType::kF32 || t == DType::kBF16 || t == DType::kF16)
        return fmt::format("{}.{}", rule_of(op.kind).name, name_of(t));
    }
  return std::string(rule_of(op.kind).name);
}

double product_s(const ProductShape& s, const DeviceFigures& d) {
  const double operations = 2 * static_cast<double>(s.batch) * static_cast<double>(s.m) *
                            static_cast<double>(s.n) * static_cast<double>(s.k);
  const double moved = sweep_s(
      static_cast<double>(s.batch * (s.m * s.k + s.k * s.n + s.m * s.n) * size_of(s.type)), d);
  if (const double rate = measured_rate(s, d); rate > 0) return operations / rate + d.kernel_s;
  double best = operations / (rate_of(s, d) * d.matrix_efficiency);
  if (d.processors > 0) {
    best = std::numeric_limits<double>::infinity();
    for (const Tile& tile : kTiles)
      for (const int64_t split : kSplits) best = std::min(best, tiled_s(s, tile, split, d));
  }
  return std::max(best, moved) + d.kernel_s;
}

double op_s(const Op& op, ValueSpan values, const Hardware& hardware, const Software& software) {
  const DeviceFigures& d = hardware.device;
  const double kernels = kernels_of(rule_of(op.kind).name, software);
  switch (op.kind) {
    case OpKind::kMatmul:
    case OpKind::kMatmulGradInput:
    case OpKind::kMatmulGradWeight: {
      // Further kernels sweep the result: into a sum of another type, say.
      const double result = static_cast<double>(values[op.outputs[0]].bytes());
      double rounding = 0;
      if (op.attributes.has("fp8"))
        for (const ValueId v : op.inputs) {
          const Value& x = values[v];
          const int64_t swept = 2 * x.bytes() + x.shape.elements();
          rounding += sweep_s(static_cast<double>(swept), d) + 2 * d.kernel_s;
        }
      return product_s(product_of(op, values), d) + rounding +
             (kernels - 1) * (sweep_s(1.5 * result, d) + d.kernel_s);
    }
    case OpKind::kAttentionScores:
    case OpKind::kAttentionScoresGrad:
    case OpKind::kAttentionMix:
    case OpKind::kAttentionMixGrad: {
      double s = 0;
      for (const ProductShape& p : pair_products(op, values)) s += product_s(p, d);
      return std::max(s, moved_s(op, values, d));
    }
    case OpKind::kAttention:
    case OpKind::kAttentionGrad:
    case OpKind::kCachedAttention: {
      if (const double r = measured_rate(op, values, d.op_flops_per_s); r > 0)
        return cost_of(op, values).flops / (r * software.attention_share) + d.kernel_s;
      const double rate = rate_of(values[op.inputs[0]].dtype, d) * d.matrix_efficiency *
                          d.attention_efficiency * software.attention_share;
      return std::max(cost_of(op, values).flops / rate, moved_s(op, values, d)) + d.kernel_s;
    }
    case OpKind::kLinearCrossEntropy:
      if (const double r = measured_rate(op, values, d.op_flops_per_s); r > 0)
        return cost_of(op, values).flops / r + d.kernel_s;
      return linear_cross_entropy_s(op, values, d);
    default:
      return kernels * (moved_s(op, values, d) + d.kernel_s);
  }
}

double host_copy_s(int64_t bytes, const DeviceFigures& d) {
  const auto n = static_cast<double>(bytes);
  if (d.host_bytes_per_s > 0) return n / d.host_bytes_per_s + d.kernel_s;
  if (d.kind == "cpu") return sweep_s(2 * n, d) + d.kernel_s;
  throw Error(
      "layout.offload copies between {} and its host, and device.host_bytes_per_s is not in the "
      "machine's file: add what one copy of pinned memory reaches in one direction.",
      d.name);
}

OpFlops op_flops(const Op& op, ValueSpan values) {
  const double flops = cost_of(op, values).flops;
  switch (op.kind) {
    case OpKind::kAttention:
    case OpKind::kAttentionGrad: {
      // The gradient makes the scores once more: five products for four of the model.
      const double model = op.kind == OpKind::kAttention ? flops : 0.8 * flops;
      const auto T = static_cast<double>(values[op.inputs[0]].shape[1]);
      return {model, flops, model * 2 * T / (T + 1)};
    }
    case OpKind::kAttentionScores:
    case OpKind::kAttentionMix:
    case OpKind::kAttentionScoresGrad:
    case OpKind::kAttentionMixGrad: {
      const Shape& q = values[op.inputs[op.kind == OpKind::kAttentionScores ||
                                                op.kind == OpKind::kAttentionScoresGrad
                                            ? 0
                                            : 1]]
                           .shape;
      const auto T = static_cast<double>(q[1]);
      return {flops * (T + 1) / (2 * T), flops, flops};
    }
    default:
      return {flops, flops, flops};
  }
}

}  // namespace tessera

// An analytic model of op times (op_time.h): GEMMs by tiles and waves, attention by its operations,
// everything else by the bytes it moves (roofline). Measured rates replace the model where the
// machine's file has them.
#include "plan/op_time.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/real.h"
#include "ir/operands.h"
#include "ir/rule.h"

namespace tessera::plan {
namespace {

// The rows and columns that one processor computes at once, and the share of the rate of large
// tiles that it reaches: smaller tiles read more bytes per operation. The sizes are those of cuBLAS
// and CUTLASS; the shares have the magnitude of measurements on A100 (CUTLASS profiler) and are not
// fitted.
struct Tile {
  int64_t rows, columns;
  double share;
};
constexpr std::array kTiles = {Tile{256, 128, 1.0}, Tile{128, 256, 1.0}, Tile{128, 128, 0.93},
                               Tile{64, 128, 0.75}, Tile{128, 64, 0.75}, Tile{64, 64, 0.55}};
constexpr std::array<int64_t, 4> kSplits = {1, 2, 4, 8};  // split-k: processors that share k
// The cost of filling the pipeline of a tile and of writing the tile back, in steps of k.
constexpr double kTileOverhead = 200;

double rate_of(DType type, const DeviceFigures& d) {
  return type == DType::kF32 ? d.fp32_flops_per_s : d.bf16_flops_per_s;
}

double rate_of(const GemmShape& s, const DeviceFigures& d) {
  return s.fp8 && d.fp8_flops_per_s > 0 ? d.fp8_flops_per_s : rate_of(s.type, d);
}

double sweep_s(double bytes, const DeviceFigures& d) {
  return bytes / (d.memory_bytes_per_s * d.memory_efficiency);
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

double tiled_s(const GemmShape& s, const Tile& tile, int64_t split, const DeviceFigures& d) {
  const double blocks =
      real_product(s.batch * split, ceil_div(s.m, tile.rows), ceil_div(s.n, tile.columns));
  const double depth = ratio(s.k, split) + kTileOverhead;
  const double one = 2 * real_product(tile.rows * tile.columns, depth, d.processors) /
                     (rate_of(s, d) * d.matrix_efficiency * tile.share);
  // In a partial last wave, idle processors leave clock and bandwidth to the others, so it is
  // charged the mean of one full wave and its share of a full wave.
  const double waves = ratio(blocks, d.processors);
  const double effective = waves < 1 ? 1 : 0.5 * (std::ceil(waves) + waves);
  // Split-k writes and reads f32 partial sums: 8 bytes per element and split.
  const double sums = split == 1 ? 0 : sweep_s(real_product(8, split, s.batch * s.m * s.n), d);
  return effective * one + sums;
}

double log_distance(const MeasuredProduct& r, const GemmShape& s) {
  const auto part = [](int64_t a, int64_t b) {
    const double x = std::log(ratio(a, std::max<int64_t>(b, 1)));
    return x * x;
  };
  return part(r.m, s.m) + part(r.n, s.n) + part(r.k, s.k);
}

// Interpolates measured rates: a mean of logarithms, weighted by the inverse squared distance in
// log m, log n and log k.
double measured_rate(const GemmShape& s, const DeviceFigures& d) {
  double weights = 0, sum = 0;
  for (const MeasuredProduct& r : d.products) {
    if (r.kind != name_of(s.kind) || r.type != name_of(s.type)) continue;
    const double w = 1 / (log_distance(r, s) + 1e-3);
    weights += w;
    sum += w * std::log(r.flops_per_s);
  }
  return weights > 0 ? std::exp(sum / weights) : 0;
}

// Returns the measured rate for the op's type, otherwise for any type; 0 if there is none.
double measured_rate(const Op& op, ValueSpan values, const OpRates& rates) {
  if (rates.empty()) return 0;
  auto found = rates.find(rate_key(op, values));
  if (found == rates.end()) found = rates.find(name_of(op.kind()));
  return found == rates.end() ? 0 : found->second;
}

double moved_s(const Op& op, const Cost& cost, ValueSpan values, const DeviceFigures& d) {
  const double measured = measured_rate(op, values, d.op_bytes_per_s);
  return measured > 0 ? cost.moved_bytes / measured : sweep_s(cost.moved_bytes, d);
}

// Each kernel after the first reads and writes the result, for example to convert it to another
// type. Each FP8 operand is quantized by two kernels, each of which reads it.
double one_product_s(const Op& op, const Cost& cost, ValueSpan values, const DeviceFigures& d,
                     double kernels) {
  const GemmShape& product = cost.products.front();
  const double result = bytes_of(values, op.outputs[0]);
  double rounding = 0;
  if (product.fp8)
    for (const ValueId v : op.inputs) {
      const Value& x = values[v];
      const int64_t swept = 2 * x.bytes() + x.shape.elements();
      rounding += sweep_s(static_cast<double>(swept), d) + 2 * d.kernel_s;
    }
  return product_s(product, d) + rounding + (kernels - 1) * (sweep_s(1.5 * result, d) + d.kernel_s);
}

// The GEMMs run one after another; the time is at least that of the bytes that the op moves.
double products_s(const Op& op, const Cost& cost, ValueSpan values, const DeviceFigures& d) {
  double s = 0;
  for (const GemmShape& p : cost.products) s += product_s(p, d);
  return std::max(s, moved_s(op, cost, values, d));
}

// If experts are divided among ranks, all ranks wait for the busiest one.
double experts_s(const Op& op, const Cost& cost, ValueSpan values, const DeviceFigures& d,
                 const Software& software) {
  const bool gradient = op.is<ExpertsGrad>();
  const int64_t all = gradient ? op.as<ExpertsGrad>().experts : op.as<Experts>().experts;
  const ValueId up = gradient ? input(op, ExpertsGrad::kUp) : input(op, Experts::kUp);
  const double busiest = busiest_rank(software.expert_imbalance, all, values[up].shape[0]);
  if (const double r = measured_rate(op, values, d.op_flops_per_s); r > 0)
    return busiest * cost.flops.hardware / r + d.kernel_s;
  return busiest * products_s(op, cost, values, d);
}

double attention_s(const Op& op, const Cost& cost, ValueSpan values, const DeviceFigures& d,
                   const Software& software) {
  const double flops = cost.attention.flops();
  if (const double r = measured_rate(op, values, d.op_flops_per_s); r > 0)
    return flops / (r * software.attention_share) + d.kernel_s;
  const double rate = rate_of(cost.attention.type, d) * d.matrix_efficiency *
                      d.attention_efficiency * software.attention_share;
  return std::max(flops / rate, moved_s(op, cost, values, d)) + d.kernel_s;
}

// The fused head runs its GEMMs chunk by chunk; the loss then reads and writes the chunk's logits.
double chunks_s(const Op& op, const Cost& cost, ValueSpan values, const DeviceFigures& d) {
  if (const double r = measured_rate(op, values, d.op_flops_per_s); r > 0)
    return cost.flops.hardware / r + d.kernel_s;
  const GemmShape& logits = cost.products.front();
  const int64_t tokens = logits.m, chunk = std::min(tokens, kHeadChunk);
  double s = 0;
  for (GemmShape p : cost.products) {
    (p.kind == GemmKind::kWeightGradient ? p.k : p.m) = chunk;
    s += product_s(p, d);
  }
  s += sweep_s(real_product(2, chunk * logits.n * size_of(DType::kF32)), d);
  return ratio(real_product(s, tokens), chunk);
}

}  // namespace

double kernels_of(OpKind kind, const Software& software) {
  const auto found = software.kernels.find(name_of(kind));
  return found == software.kernels.end() ? 1.0 : static_cast<double>(found->second);
}

std::string rate_key(const Op& op, ValueSpan values) {
  for (const std::vector<ValueId>* operands : {&op.inputs, &op.outputs})
    for (const ValueId v : *operands) {
      const DType t = values[v].dtype;
      if (t == DType::kF32 || t == DType::kBF16 || t == DType::kF16)
        return fmt::format("{}.{}", name_of(op.kind()), name_of(t));
    }
  return std::string(name_of(op.kind()));
}

double product_s(const GemmShape& s, const DeviceFigures& d) {
  const double operations = s.flops();
  const double moved =
      sweep_s(real_product(s.batch * (s.m * s.k + s.k * s.n + s.m * s.n), size_of(s.type)), d);
  if (const double rate = measured_rate(s, d); rate > 0) return operations / rate + d.kernel_s;
  double best = operations / (rate_of(s, d) * d.matrix_efficiency);
  if (d.processors > 0) {
    best = std::numeric_limits<double>::infinity();
    for (const Tile& tile : kTiles)
      for (const int64_t split : kSplits) best = std::min(best, tiled_s(s, tile, split, d));
  }
  return std::max(best, moved) + d.kernel_s;
}

double op_s(const Op& op, const Cost& cost, ValueSpan values, const Hardware& hardware,
            const Software& software) {
  const DeviceFigures& d = hardware.device;
  const double kernels = kernels_of(op.kind(), software);
  switch (cost.work) {
    case Work::kSweep:
      return kernels * (moved_s(op, cost, values, d) + d.kernel_s);
    case Work::kProduct:
      return one_product_s(op, cost, values, d, kernels);
    case Work::kScores:
      return products_s(op, cost, values, d);
    case Work::kGrouped:
      return experts_s(op, cost, values, d, software);
    case Work::kAttention:
      return attention_s(op, cost, values, d, software);
    case Work::kChunks:
      return chunks_s(op, cost, values, d);
    case Work::kHostCopy:
      return host_copy_s(cost.moved_bytes, d);
  }
  CHECK(false, "{}: unknown kind of work {}", op.origin, static_cast<int>(cost.work));
}

double host_copy_s(double bytes, const DeviceFigures& d) {
  if (d.host_bytes_per_s > 0) return bytes / d.host_bytes_per_s + d.kernel_s;
  if (d.kind == DeviceKind::kCpu) return sweep_s(2 * bytes, d) + d.kernel_s;
  throw Error(
      "layout.offload copies between {} and its host, but device.host_bytes_per_s is missing from "
      "the machine file. Add the rate of a copy from pinned memory in one direction.",
      d.name);
}

}  // namespace tessera::plan

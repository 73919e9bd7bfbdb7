// Rule of dequantize_nf4. Dimensions: m, n, … outputs; u, v, … inputs; the blocks of 64 inputs of
// an output are divided as the first of its inputs is. A dimension that is cut into several parts
// is not divided. Nothing is differentiated: a weight that is stored in 4 bits is not trained.
#include "base/error.h"
#include "base/nf4.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

// The operands of one part, as indices among the inputs.
struct Part {
  int64_t codes, scales, levels;
};
Part operands_of(const DequantizeNf4& a, int64_t part) {
  return {part, a.parts + part, 2 * a.parts + part};
}

std::vector<OutputSpec> infer(const Op& op, const Inputs& in) {
  const DequantizeNf4& a = op.as<DequantizeNf4>();
  const int out = a.shape.rank() - static_cast<int>(a.contract);
  CHECK(out >= 1 && a.dim < out && std::ssize(in) == 3 * a.parts,
        "dequantize_nf4 expects codes, scales and levels of each part of {}", to_string(a.shape));
  const int64_t inputs = a.shape.product(out, a.shape.rank());
  int64_t extent = 0;
  for (int64_t i = 0; i < a.parts; ++i) {
    const Part p = operands_of(a, i);
    const Shape &codes = in[p.codes]->shape, &scales = in[p.scales]->shape;
    CHECK(in[p.codes]->dtype == DType::kU8 && in[p.scales]->dtype == DType::kU8 &&
              in[p.levels]->dtype == DType::kF32,
          "{}: expected codes and scales in u8, levels in f32", op.origin);
    CHECK(codes.rank() == out + 2 && scales.rank() == out + 1 && codes[-1] == kNf4Bytes &&
              codes[out] * kNf4Block == inputs && in[p.levels]->shape.rank() == 1,
          "{}: codes {} and scales {} of {}", op.origin, to_string(codes), to_string(scales),
          to_string(a.shape));
    for (int d = 0; d < out; ++d)
      CHECK(codes[d] == scales[d] && (d == a.dim || codes[d] == a.shape[d]),
            "{}: codes {} and scales {} of {}", op.origin, to_string(codes), to_string(scales),
            to_string(a.shape));
    CHECK(in[p.levels]->shape[0] == nf4_levels(scales.elements()), "{}: {} levels of scales {}",
          op.origin, in[p.levels]->shape[0], to_string(scales));
    extent += codes[static_cast<int>(a.dim)];
  }
  CHECK(extent == a.shape[static_cast<int>(a.dim)], "{}: parts of {} rows in {}", op.origin, extent,
        to_string(a.shape));
  return {{"", a.type, a.shape}};
}

std::string letters(char first, int64_t count) {
  std::string s;
  for (int64_t i = 0; i < count; ++i) s += static_cast<char>(first + i);
  return s;
}

ShardingRule sharding(const Op& op, ValueSpan values) {
  const DequantizeNf4& a = op.as<DequantizeNf4>();
  const int out = a.shape.rank() - static_cast<int>(a.contract);
  const auto dim = static_cast<size_t>(a.dim);
  const std::string outputs = letters('m', out), inputs = letters('u', a.contract);
  ShardingRule rule;
  rule.outputs = {outputs + inputs};
  // A rank's outputs follow one another in the whole part: only the first dimension that is not 1
  // is divided.
  const Shape& codes = values[op.inputs[0]].shape;
  for (int d = 0; d < out && codes.product(0, d) == 1; ++d)
    if (d != a.dim || a.parts == 1) rule.splits += outputs[static_cast<size_t>(d)];
  // The blocks and the first input dimension have one label, 'u', if one extent divides the other.
  const int64_t blocks = codes[out], first = a.shape[out];
  const bool aligned = std::max(blocks, first) % std::min(blocks, first) == 0;
  if (aligned) {
    rule.splits += inputs[0];
    rule.multiples = inputs.substr(0, 1);
  }
  const std::string block = aligned ? inputs.substr(0, 1) : "b";
  rule.linear.emplace_back();  // the weight is a sum over the levels of all parts
  rule.inputs.resize(op.inputs.size());
  for (int64_t i = 0; i < a.parts; ++i) {
    const Part p = operands_of(a, i);
    std::string rows = outputs;
    if (a.parts > 1) rows[dim] = static_cast<char>('A' + i);
    rule.inputs[p.codes] = rows + block + "c";
    rule.inputs[p.scales] = rows + block;
    rule.inputs[p.levels] = std::string(1, static_cast<char>('P' + i));
    rule.linear[0].push_back(static_cast<int>(p.levels));
  }
  return rule;
}

}  // namespace

const OpRule DequantizeNf4::rule = {.infer = infer, .sharding = sharding};

}  // namespace tessera

#include "runtime/library.h"

#include <tuple>

#include "base/error.h"
#include "ir/attention_operands.h"
#include "ir/rule.h"
#include "kernels/attention.h"
#include "kernels/attention_parts.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/gelu.h"
#include "kernels/norm.h"
#include "kernels/rotary.h"
#include "kernels/squares.h"
#include "kernels/sum.h"
#include "runtime/bound_op.h"

namespace tessera {
namespace {

using kernels::LinearCrossEntropyShape;
using kernels::MatmulShape;

auto key(const MatmulShape& s) {
  return std::tuple(s.m, s.n, s.k, s.transpose_a, s.transpose_b, s.accumulate, s.a, s.b, s.c,
                    s.packed_b, s.alpha);
}
auto key(const LinearCrossEntropyShape& s) {
  return std::tuple(s.tokens, s.hidden, s.vocabulary, s.dtype, s.sums, s.gradient);
}

template <class Shape, class Kernel>
const Kernel& find_or_make(std::vector<std::pair<Shape, std::unique_ptr<Kernel>>>& all,
                           const Shape& shape, const CpuFeatures& cpu, int threads) {
  for (const auto& [known, kernel] : all)
    if (key(known) == key(shape)) return *kernel;
  all.emplace_back(shape, std::make_unique<Kernel>(shape, cpu, threads));
  return *all.back().second;
}

int64_t attention_bytes(const Op& op, std::span<const Value> values, int threads) {
  const Shape& s = at(values, op.inputs[0]).shape;  // [B, T, K, G+2, D]
  const AttentionOperands has =
      attention_operands(op.attributes, op.kind == OpKind::kAttentionGrad ? 4 : 1);
  const auto operand = [&](int i) { return at(values, op.inputs[static_cast<size_t>(i)]).shape; };
  const int64_t keys = has.across == kNone ? 0 : operand(has.across)[1];
  switch (op.kind) {
    case OpKind::kAttention:
      return kernels::attention_workspace_bytes(s[1], s[4], threads, keys);
    case OpKind::kAttentionGrad:
      return kernels::attention_grad_workspace_bytes(
          s[1], s[4], threads, keys, has.bias == kNone ? 0 : s[0] * operand(has.bias).elements());
    case OpKind::kCachedAttention:
      return kernels::cached_attention_workspace_bytes(op.attributes.integer("context"), s[4],
                                                       threads);
    case OpKind::kAttentionScores:
    case OpKind::kAttentionScoresGrad:
      return kernels::attention_parts_workspace_bytes(s[1], s[4], threads);
    default: {
      const Shape& qkv = at(values, op.inputs[1]).shape;  // mix: probabilities come first
      return kernels::attention_parts_workspace_bytes(qkv[1], qkv[4], threads);
    }
  }
}

int64_t row_bytes(const Op& op, std::span<const Value> values) {
  if (op.inputs.empty()) return 0;
  const Shape& s = at(values, op.inputs[0]).shape;
  const int64_t rows = s.elements() / s[-1];
  switch (op.kind) {
    case OpKind::kNormGrad:
    case OpKind::kRmsNormGrad:
      return kernels::norm_grad_workspace_bytes(rows, s[-1]);
    case OpKind::kGeluGrad:
      return op.attributes.integer("bias") ? kernels::gelu_grad_workspace_bytes(rows, s[-1]) : 0;
    case OpKind::kBiasGrad: {
      const int64_t d = at(values, op.outputs[0]).shape.elements();
      return kernels::bias_grad_workspace_bytes(s.elements() / d, d);
    }
    case OpKind::kEmbeddingGrad:
      return kernels::embedding_grad_workspace_bytes(s.elements(), at(values, op.outputs[0]).dtype);
    case OpKind::kRotary:
      return kernels::rotary_workspace_bytes(
          at(values, op.inputs[1]).shape.elements(),
          {op.attributes.integer("dims"), op.attributes.number("base")});
    case OpKind::kSquares:
      return kernels::squares_workspace_bytes(s.elements());
    case OpKind::kAdafactorSums:
      return kernels::squares_workspace_bytes(s.elements());
    case OpKind::kAdafactorSquares:
    case OpKind::kAdafactor:
      return adafactor_workspace_bytes(op, values);
    case OpKind::kCrossEntropy:
      return kernels::cross_entropy_workspace_bytes(rows);
    default:
      return 0;
  }
}

}  // namespace

MatmulShape product_shape(const Op& op, std::span<const Value> values) {
  const Value &a = at(values, op.inputs[0]), &c = at(values, op.outputs[0]);
  const auto contract = static_cast<int>(op.attributes.integer("contract", 1));
  MatmulShape s;
  s.alpha = static_cast<float>(op.attributes.number("scale", 1));
  s.a = s.b = a.dtype;
  s.c = c.dtype;
  if (op.kind == OpKind::kMatmulGradWeight) {
    const Shape& x = at(values, op.inputs[1]).shape;
    s.transpose_a = true;
    s.k = x.product(0, x.rank() - contract);
    s.m = a.shape.elements() / s.k;
    s.n = x.elements() / s.k;
    s.accumulate = true;
    return s;
  }
  const bool packs = op.kind == OpKind::kPack;
  const Shape& w = packs ? a.shape : at(values, op.inputs[1]).shape;
  const int64_t out = w.product(0, w.rank() - contract), in = w.elements() / out;
  const bool forward =
      op.kind == OpKind::kMatmul || (packs && op.attributes.text("product") == "matmul");
  s.n = forward ? out : in;
  s.k = forward ? in : out;
  s.m = (packs ? op.attributes.integer("rows") : a.shape.elements()) / s.k;
  s.transpose_b = forward;
  s.packed_b = packs || op.packed != kNone;
  if (packs) s.c = s.a;
  return s;
}

LinearCrossEntropyShape head_shape(const Op& op, std::span<const Value> values) {
  const Value &x = at(values, op.inputs[0]), &w = at(values, op.inputs[1]);
  LinearCrossEntropyShape s;
  s.hidden = w.shape[1];
  s.vocabulary = w.shape[0];
  s.tokens = x.shape.elements() / s.hidden;
  s.dtype = x.dtype;
  s.gradient = op.attributes.integer("gradient") != 0;
  if (op.outputs.size() > 2) s.sums = at(values, op.outputs[2]).dtype;
  return s;
}

const kernels::Matmul& Library::product(const MatmulShape& shape) {
  return find_or_make(products_, shape, cpu_, threads_);
}

const kernels::LinearCrossEntropy& Library::head(const LinearCrossEntropyShape& shape) {
  return find_or_make(heads_, shape, cpu_, threads_);
}

Target Library::target() {
  Target t;
  t.workspace_bytes = [this](const Op& op, std::span<const Value> values) -> int64_t {
    switch (op.kind) {
      case OpKind::kMatmul:
      case OpKind::kMatmulGradInput:
        return product(product_shape(op, values)).workspace_bytes();
      case OpKind::kMatmulGradWeight: {
        MatmulShape fresh = product_shape(op, values);
        fresh.accumulate = false;
        return std::max(product(product_shape(op, values)).workspace_bytes(),
                        product(fresh).workspace_bytes());
      }
      case OpKind::kLinearCrossEntropy:
        return head(head_shape(op, values)).workspace_bytes();
      case OpKind::kAttention:
      case OpKind::kAttentionGrad:
      case OpKind::kCachedAttention:
      case OpKind::kAttentionScores:
      case OpKind::kAttentionScoresGrad:
      case OpKind::kAttentionMix:
      case OpKind::kAttentionMixGrad:
        return attention_bytes(op, values, threads_);
      case OpKind::kAllReduce:
      case OpKind::kAllGather:
      case OpKind::kReduceScatter:
        return communication_workspace_bytes(op, values);
      default:
        return row_bytes(op, values);
    }
  };
  t.packed_bytes = [this](const Op& op, std::span<const Value> values) {
    return product(product_shape(op, values)).packed_bytes();
  };
  return t;
}

}  // namespace tessera

#include "runtime/library.h"

#include <tuple>

#include "base/error.h"
#include "ir/attention_operands.h"
#include "ir/rule.h"
#include "runtime/bound_op.h"

namespace tessera {
namespace {

using kernels::LinearCrossEntropyShape;
using kernels::MatmulShape;

auto key(const MatmulShape& s) {
  return std::tuple(s.m, s.n, s.k, s.transpose_a, s.transpose_b, s.accumulate, s.a, s.b, s.c,
                    s.packed_b, s.alpha, s.fp8_a, s.fp8_b, s.batch, s.lda, s.ldb, s.ldc, s.stride_a,
                    s.stride_b, s.stride_c);
}
auto key(const LinearCrossEntropyShape& s) {
  return std::tuple(s.tokens, s.hidden, s.vocabulary, s.dtype, s.sums, s.gradient);
}

template <class Shape, class Kernel>
const Kernel& find_or_make(std::vector<std::pair<Shape, std::unique_ptr<Kernel>>>& all,
                           const Shape& shape, const CpuFeatures& cpu, int threads,
                           const kernels::GpuBlas* blas) {
  for (const auto& [known, kernel] : all)
    if (key(known) == key(shape)) return *kernel;
  all.emplace_back(shape, std::make_unique<Kernel>(shape, cpu, threads, blas));
  return *all.back().second;
}

int64_t attention_bytes(const Op& op, ValueSpan values, int threads,
                        const kernels::Kernels::Workspaces& of) {
  const auto view = [&](int i) {
    const Value& v = values[op.inputs[static_cast<size_t>(i)]];
    return TensorView{nullptr, v.dtype, v.shape};
  };
  const TensorView qkv = view(0);  // [B, T, K, G+2, D]; of mix and its gradient: probabilities
  const AttentionOperands has =
      attention_operands(op.attributes, op.kind == OpKind::kAttentionGrad ? 4 : 1);
  const TensorView kv = has.across == kNone ? TensorView() : view(has.across);
  switch (op.kind) {
    case OpKind::kAttention:
      return of.attention(qkv, kv, threads);
    case OpKind::kAttentionGrad:
      return of.attention_grad(qkv, kv, has.bias == kNone ? 0 : view(has.bias).shape[1], threads);
    case OpKind::kCachedAttention:
      return of.cached_attention(op.attributes.integer("context"), qkv.shape[4], threads);
    case OpKind::kAttentionScores:
    case OpKind::kAttentionScoresGrad:
      return of.attention_parts(qkv.shape[1], qkv.shape[4], threads);
    default:
      return of.attention_parts(view(1).shape[1], view(1).shape[4], threads);
  }
}

int64_t row_bytes(const Op& op, ValueSpan values, const kernels::Kernels::Workspaces& of) {
  if (op.inputs.empty()) return 0;
  const Shape& s = values[op.inputs[0]].shape;
  const int64_t rows = s.elements() / s[-1];
  switch (op.kind) {
    case OpKind::kNormGrad:
    case OpKind::kRmsNormGrad:
      return of.norm_grad(rows, s[-1]);
    case OpKind::kGeluGrad: {
      const int64_t d = op.attributes.integer("bias") ? values[op.inputs[1]].shape.elements() : 0;
      return d > 0 ? of.gelu_grad(s.elements() / d, d) : 0;
    }
    case OpKind::kBiasGrad: {
      const int64_t d = values[op.outputs[0]].shape.elements();
      return of.bias_grad(s.elements() / d, d);
    }
    case OpKind::kEmbeddingGrad:
      return of.embedding_grad(s.elements(), values[op.outputs[0]].dtype);
    case OpKind::kRotary:
      return of.rotary(values[op.inputs[1]].shape.elements(),
                       {op.attributes.integer("dims"), op.attributes.number("base")});
    case OpKind::kRepeatHeadsGrad:
      return values[op.outputs[0]].bytes();
    case OpKind::kSquares:
      return of.squares(s.elements());
    case OpKind::kAdafactorSums:
      return std::max(of.squares(s.elements()),
                      of.factor_sums(s.elements(), values[op.outputs[0]].shape.elements()));
    case OpKind::kAdafactorSquares:
      return of.squares(s.elements()) + adafactor_workspace_bytes(op, values);
    case OpKind::kAdafactor:
      return adafactor_workspace_bytes(op, values);
    case OpKind::kCrossEntropy:
      return of.cross_entropy(rows);
    default:
      return 0;
  }
}

kernels::Fp8 fp8_named(const std::string& name) {
  return name == "e5m2" ? kernels::Fp8::kE5M2 : kernels::Fp8::kE4M3;
}

}  // namespace

MatmulShape product_shape(const Op& op, ValueSpan values) {
  const Value &a = values[op.inputs[0]], &c = values[op.outputs[0]];
  const auto contract = static_cast<int>(op.attributes.integer("contract", 1));
  MatmulShape s;
  s.alpha = static_cast<float>(op.attributes.number("scale", 1));
  s.a = s.b = a.dtype;
  s.c = c.dtype;
  if (op.attributes.has("fp8")) {
    s.fp8_a = fp8_named(op.attributes.text("fp8"));
    s.fp8_b = kernels::Fp8::kE4M3;
  }
  if (op.kind == OpKind::kMatmulGradWeight) {
    const Shape& x = values[op.inputs[1]].shape;
    s.transpose_a = true;
    s.k = x.product(0, x.rank() - contract);
    s.m = a.shape.elements() / s.k;
    s.n = x.elements() / s.k;
    s.accumulate = true;
    return s;
  }
  const bool packs = op.kind == OpKind::kPack;
  const Shape& w = packs ? a.shape : values[op.inputs[1]].shape;
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

LinearCrossEntropyShape head_shape(const Op& op, ValueSpan values) {
  const Value &x = values[op.inputs[0]], &w = values[op.inputs[1]];
  LinearCrossEntropyShape s;
  s.hidden = w.shape[1];
  s.vocabulary = w.shape[0];
  s.tokens = x.shape.elements() / s.hidden;
  s.dtype = x.dtype;
  s.gradient = op.attributes.integer("gradient") != 0;
  if (op.outputs.size() > 2) s.sums = values[op.outputs[2]].dtype;
  return s;
}

std::optional<kernels::AttentionShape> attention_shape(const Op& op, ValueSpan values) {
  const bool gradient = op.kind == OpKind::kAttentionGrad;
  if (!gradient && op.kind != OpKind::kAttention) return std::nullopt;
  const AttentionOperands has = attention_operands(op.attributes, gradient ? 4 : 1);
  const bool documents = has.seen != kNone && op.attributes.text("seen") == "documents";
  if (has.bias != kNone || has.samples != kNone) return std::nullopt;
  const Value& q = values[op.inputs[0]];
  kernels::AttentionShape s;
  s.apart = has.across != kNone;
  s.b = q.shape[0];
  s.t = s.s = q.shape[1];
  if (s.apart) s.s = values[op.inputs[static_cast<size_t>(has.across)]].shape[1];
  s.kv = q.shape[2];
  s.g = q.shape[3] - (s.apart ? 0 : 2);
  s.d = q.shape[4];
  s.dtype = q.dtype;
  s.causal = !op.attributes.has("whole");
  s.documents = documents;
  s.padding = has.seen != kNone && !documents;
  s.gradient = gradient;
  s.scale = static_cast<float>(op.attributes.number("scale"));
  if (s.b == 0 || s.t == 0 || s.s == 0 || s.kv == 0 || s.g == 0) return std::nullopt;
  return s;
}

Library::Library(const CpuFeatures& cpu, int threads, const GpuFeatures& gpu, bool tf32)
    : cpu_(cpu),
      threads_(threads),
      gpu_(gpu),
      blas_(std::make_unique<kernels::GpuBlas>(tf32)),
      choices_(std::make_unique<kernels::ProductChoices>(
          fmt::format("{} sm_{} cuBLASLt {}{}", gpu.model, gpu.architecture, blas_->version(),
                      tf32 ? " TF32" : ""))),
      kernels_(&kernels::gpu_kernels()) {
  blas_->choose_by(*choices_);
}

void Library::measure_products(std::function<double()> now_s) {
  attention_by_.now_s = now_s;
  blas_->choose_by(*choices_, std::move(now_s));
}

void Library::choose_attention(std::function<void(const std::string&)> say) {
  attention_by_.choices = choices_.get();
  attention_by_.say = std::move(say);
  asks_dnn_ = true;
}

const kernels::GpuAttention* Library::attention(const Op& op, ValueSpan values) {
  if (attention_by_.choices == nullptr) return nullptr;
  const std::optional<kernels::AttentionShape> shape = attention_shape(op, values);
  if (!shape || !kernels::GpuAttention::may_choose(*shape)) return nullptr;
  if (asks_dnn_) {
    asks_dnn_ = false;
    try {
      dnn_ = std::make_unique<kernels::CudaDnn>();
      attention_by_.dnn = dnn_.get();
    } catch (const Error& e) {
      attention_by_.say(fmt::format("attention by our own kernels: {}", e.what()));
    }
  }
  for (const auto& [known, kernel] : attention_)
    if (known == *shape) return kernel.get();
  attention_.emplace_back(*shape, std::make_unique<kernels::GpuAttention>(*shape, attention_by_));
  return attention_.back().second.get();
}

const Product& Library::product(const MatmulShape& shape) {
  return find_or_make(products_, shape, cpu_, threads_, blas_.get());
}

const Head& Library::head(const LinearCrossEntropyShape& shape) {
  return find_or_make(heads_, shape, cpu_, threads_, blas_.get());
}

Target Library::target() {
  Target t;
  if (on_gpu()) t.alignment = kernels::kBlasWorkspaceAlignment;
  t.ordered_transfers = on_gpu();
  t.workspace_bytes = [this](const Op& op, ValueSpan values) -> int64_t {
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
        if (const kernels::GpuAttention* prepared = attention(op, values))
          return prepared->workspace_bytes();
        return attention_bytes(op, values, threads_, kernels_->workspace);
      case OpKind::kCachedAttention:
      case OpKind::kAttentionScores:
      case OpKind::kAttentionScoresGrad:
      case OpKind::kAttentionMix:
      case OpKind::kAttentionMixGrad:
        return attention_bytes(op, values, threads_, kernels_->workspace);
      case OpKind::kAllReduce:
      case OpKind::kAllGather:
      case OpKind::kReduceScatter:
        return communication_workspace_bytes(op, values);
      default:
        return row_bytes(op, values, kernels_->workspace);
    }
  };
  t.packed_bytes = [this](const Op& op, ValueSpan values) {
    return product(product_shape(op, values)).packed_bytes();
  };
  return t;
}

}  // namespace tessera

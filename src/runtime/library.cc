#include "runtime/library.h"

#include <tuple>

#include "base/error.h"
#include "ir/operands.h"
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
  const auto view = [&](ValueId v) {
    if (v == kNone) return TensorView();
    return TensorView{nullptr, values[v].dtype, values[v].shape};
  };
  const TensorView first = view(op.inputs[0]);  // qkv; of mix and its gradient: probabilities
  switch (op.kind()) {
    case kind_of<Attention>():
      return of.attention(first, view(input(op, Attention::kKv)), threads);
    case kind_of<AttentionGrad>(): {
      const ValueId bias = input(op, AttentionGrad::kBias);
      return of.attention_grad(first, view(input(op, AttentionGrad::kKv)),
                               bias == kNone ? 0 : values[bias].shape[1], threads);
    }
    case kind_of<CachedAttention>():
      return of.cached_attention(op.as<CachedAttention>().context, first.shape[4], threads);
    case kind_of<AttentionScores>():
    case kind_of<AttentionScoresGrad>():
      return of.attention_parts(first.shape[1], first.shape[4], threads);
    default: {
      const TensorView qkv = view(op.inputs[1]);
      return of.attention_parts(qkv.shape[1], qkv.shape[4], threads);
    }
  }
}

// What the table's kernel for the op needs.
int64_t kernel_bytes(const Op& op, ValueSpan values, int threads,
                     const kernels::Kernels::Workspaces& of) {
  if (op.inputs.empty()) return 0;
  const Shape& s = values[op.inputs[0]].shape;
  const int64_t rows = s.elements() / s[-1];
  switch (op.kind()) {
    case kind_of<Attention>():
    case kind_of<AttentionGrad>():
    case kind_of<CachedAttention>():
    case kind_of<AttentionScores>():
    case kind_of<AttentionScoresGrad>():
    case kind_of<AttentionMix>():
    case kind_of<AttentionMixGrad>():
      return attention_bytes(op, values, threads, of);
    case kind_of<NormGrad>():
    case kind_of<RmsNormGrad>():
      return of.norm_grad(rows, s[-1]);
    case kind_of<GeluGrad>(): {
      if (!op.as<GeluGrad>().of.bias) return 0;
      const int64_t d = values[op.inputs[GeluGrad::kBias]].shape.elements();
      return of.gelu_grad(s.elements() / d, d);
    }
    case kind_of<BiasGrad>(): {
      const int64_t d = values[op.outputs[0]].shape.elements();
      return of.bias_grad(s.elements() / d, d);
    }
    case kind_of<EmbeddingGrad>():
      return of.embedding_grad(s.elements(), values[op.outputs[0]].dtype);
    case kind_of<Rotary>():
      return of.rotary(values[op.inputs[1]].shape.elements(),
                       {op.as<Rotary>().dims, op.as<Rotary>().base});
    case kind_of<RepeatHeadsGrad>():
      return values[op.outputs[0]].bytes();
    case kind_of<Squares>():
      return of.squares(s.elements());
    case kind_of<AdafactorSums>():
      return std::max(of.squares(s.elements()),
                      of.factor_sums(s.elements(), values[op.outputs[0]].shape.elements()));
    case kind_of<AdafactorSquares>():
      return of.squares(s.elements()) + adafactor_workspace_bytes(op, values);
    case kind_of<Adafactor>():
      return adafactor_workspace_bytes(op, values);
    case kind_of<CrossEntropy>():
      return of.cross_entropy(rows);
    default:
      return 0;
  }
}

kernels::Fp8 fp8_of(Fp8Format format) {
  switch (format) {
    case Fp8Format::kStored:
      return kernels::Fp8::kNone;
    case Fp8Format::kE4M3:
      return kernels::Fp8::kE4M3;
    case Fp8Format::kE5M2:
      return kernels::Fp8::kE5M2;
  }
  CHECK(false, "format {}", static_cast<int>(format));
}

// What matmul, its gradients and pack have in common.
struct ProductAttributes {
  int contract;
  double scale;
  Fp8Format fp8;
};
ProductAttributes product_attributes(const Op& op) {
  const auto of = [](const auto& a) {
    return ProductAttributes{static_cast<int>(a.contract), a.scale, a.fp8};
  };
  if (const Pack* const a = op.if_as<Pack>()) return of(a->attributes);
  if (const Matmul* const a = op.if_as<Matmul>()) return of(*a);
  if (const MatmulGradInput* const a = op.if_as<MatmulGradInput>()) return of(*a);
  return of(op.as<MatmulGradWeight>());
}

}  // namespace

MatmulShape product_shape(const Op& op, ValueSpan values) {
  const Value &a = values[op.inputs[0]], &c = values[op.outputs[0]];
  const ProductAttributes attributes = product_attributes(op);
  const int contract = attributes.contract;
  MatmulShape s;
  s.alpha = static_cast<float>(attributes.scale);
  s.a = s.b = a.dtype;
  s.c = c.dtype;
  if (attributes.fp8 != Fp8Format::kStored) {
    s.fp8_a = fp8_of(attributes.fp8);
    s.fp8_b = kernels::Fp8::kE4M3;
  }
  if (op.is<MatmulGradWeight>()) {
    const Shape& x = values[op.inputs[1]].shape;
    s.transpose_a = true;
    s.k = x.product(0, x.rank() - contract);
    s.m = a.shape.elements() / s.k;
    s.n = x.elements() / s.k;
    s.accumulate = true;
    return s;
  }
  const Pack* const packs = op.if_as<Pack>();
  const Shape& w = packs ? a.shape : values[op.inputs[1]].shape;
  const int64_t out = w.product(0, w.rank() - contract), in = w.elements() / out;
  const bool forward = packs ? packs->product == PackedProduct::kMatmul : op.is<Matmul>();
  s.n = forward ? out : in;
  s.k = forward ? in : out;
  s.m = (packs ? packs->rows : a.shape.elements()) / s.k;
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
  s.gradient = op.as<LinearCrossEntropy>().gradient;
  if (op.outputs.size() > 2) s.sums = values[op.outputs[2]].dtype;
  return s;
}

std::optional<kernels::AttentionShape> attention_shape(const Op& op, ValueSpan values) {
  const AttentionGrad* const gradient = op.if_as<AttentionGrad>();
  const Attention& a = gradient ? gradient->of : op.as<Attention>();
  if (a.bias_distance > 0 || a.dropout > 0) return std::nullopt;
  const Value& q = values[op.inputs[0]];
  kernels::AttentionShape s;
  s.apart = a.across;
  s.b = q.shape[0];
  s.t = s.s = q.shape[1];
  const ValueId kv = gradient ? input(op, AttentionGrad::kKv) : input(op, Attention::kKv);
  if (kv != kNone) s.s = values[kv].shape[1];
  s.kv = q.shape[2];
  s.g = q.shape[3] - (s.apart ? 0 : 2);
  s.d = q.shape[4];
  s.dtype = q.dtype;
  s.causal = !a.whole;
  s.documents = a.seen == Mask::kDocuments;
  s.padding = a.seen == Mask::kPadding;
  s.gradient = gradient != nullptr;
  s.scale = static_cast<float>(a.scale);
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

int64_t Library::workspace_bytes(const Op& op, ValueSpan values) {
  if (communicates(op)) return is_message(op) ? 0 : communication_workspace_bytes(op, values);
  switch (rule_of(op).prepared) {
    case Prepared::kProduct: {
      MatmulShape shape = product_shape(op, values);
      const int64_t bytes = product(shape).workspace_bytes();
      if (!shape.accumulate) return bytes;
      shape.accumulate = false;
      return std::max(bytes, product(shape).workspace_bytes());
    }
    case Prepared::kHead:
      return head(head_shape(op, values)).workspace_bytes();
    case Prepared::kAttention:
      if (const kernels::GpuAttention* prepared = attention(op, values))
        return prepared->workspace_bytes();
      break;
    case Prepared::kNothing:
      break;
  }
  return kernel_bytes(op, values, threads_, kernels_->workspace);
}

Target Library::target() {
  Target t;
  if (on_gpu()) t.alignment = kernels::kBlasWorkspaceAlignment;
  t.ordered_transfers = on_gpu();
  t.workspace_bytes = [this](const Op& op, ValueSpan values) {
    return workspace_bytes(op, values);
  };
  t.packed_bytes = [this](const Op& op, ValueSpan values) {
    return product(product_shape(op, values)).packed_bytes();
  };
  return t;
}

}  // namespace tessera

// Prepares library kernels per shape and shares them among ops: GEMMs, LM heads and attention of
// equal shape use one plan. It also gives the compiler the requirements of the machine (Target), so
// that workspaces are planned before anything runs.
#include "runtime/prepared_kernels.h"

#include "base/error.h"
#include "ir/chunk.h"
#include "ir/operands.h"
#include "ir/rule.h"
#include "runtime/binding.h"
#include "runtime/ops/arguments.h"

namespace tessera::runtime {
namespace {

using kernels::ExpertsShape;
using kernels::LinearCrossEntropyShape;
using kernels::MatmulShape;

kernels::Fp8 fp8_of(Fp8Format format) {
  switch (format) {
    case Fp8Format::kStored:
      return kernels::Fp8::kNone;
    case Fp8Format::kE4M3:
      return kernels::Fp8::kE4M3;
    case Fp8Format::kE5M2:
      return kernels::Fp8::kE5M2;
  }
  CHECK(false, "unknown FP8 format {}", static_cast<int>(format));
}

// The attributes that matmul, its gradients and pack have in common.
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

// The operands A [m, k] and B [k, n] of each GEMM:
//
// weights w [out, in], tokens N     A       B       m    n    k
//   matmul            y  = x w^T    x       w^T     N    out  in
//   matmul_grad_input dx = dy w     dy      w       N    in   out
//   matmul_grad_weight dw = dy^T x  dy^T    x       out  in   N
// pack has the shape of the GEMM that its weight is packed for.
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
  // dW [m = out, n = in] = dy^T x: A is dy, transposed; the contraction is over the tokens.
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
  // forward y = x W^T: n = out, k = in, B transposed. Input gradient dx = dy W: n = in, k = out.
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
  const LossTerms& terms = op.as<LinearCrossEntropy>().terms;
  s.soft_cap = static_cast<float>(terms.soft_cap);
  s.extras = {static_cast<float>(terms.z_loss), static_cast<float>(terms.label_smoothing)};
  if (op.outputs.size() > 2) s.sums = values[op.outputs[2]].dtype;
  return s;
}

// Attention with a bias, a window, a soft cap, sinks, narrow values, dropout or a zigzag cut of the
// queries is not prepared: our own kernels compute it. The gradient with sinks is that without.
std::optional<kernels::AttentionShape> attention_shape(const Op& op, ValueSpan values) {
  const AttentionGrad* const gradient = op.if_as<AttentionGrad>();
  const Attention& a = gradient ? gradient->of : op.as<Attention>();
  if (a.bias_distance > 0 || a.window > 0 || a.soft_cap > 0 || a.sinks || a.dropout > 0 ||
      a.value_width > 0 || a.ring > 0)
    return std::nullopt;
  const Value& q = values[op.inputs[0]];
  if (q.sharding.cut == ContextCut::kZigzag) return std::nullopt;  // two ranges of queries
  kernels::AttentionShape s;
  s.apart = a.separate_kv;
  s.b = q.shape[0];
  s.t = s.s = q.shape[1];
  const ValueId kv = gradient ? input(op, AttentionGrad::kKv) : input(op, Attention::kKv);
  if (kv != kNone) s.s = values[kv].shape[1];
  s.kv = q.shape[2];
  s.g = q.shape[3] - (s.apart ? 0 : 2);
  s.d = q.shape[4];
  s.dtype = q.dtype;
  s.causal = !a.non_causal;
  s.documents = a.mask == Mask::kDocuments;
  s.padding = a.mask == Mask::kPadding;
  s.gradient = gradient != nullptr;
  s.scale = static_cast<float>(a.scale);
  if (s.b == 0 || s.t == 0 || s.s == 0 || s.kv == 0 || s.g == 0) return std::nullopt;
  return s;
}

ExpertsShape experts_shape(const Op& op, ValueSpan values) {
  const auto shape_of = [&](const auto& a, ValueId up, bool pairs, bool gradient) {
    const Value &x = values[op.inputs[0]], &choice = values[op.inputs[1]];
    const Shape& w = values[up].shape;
    ExpertsShape s;
    s.hidden = w[3];
    s.inner = w[1];
    s.experts = w[0];
    s.tokens = x.shape.elements() / s.hidden;
    s.chosen = choice.shape[-1];
    s.all_experts = a.experts;
    s.dtype = x.dtype;
    s.gate = gate_of(a.form);
    s.pairs = pairs;
    s.gradient = gradient;
    return s;
  };
  if (const Experts* const a = op.if_as<Experts>())
    return shape_of(*a, input(op, Experts::kUp), a->saves, false);
  const ExpertsGrad& a = op.as<ExpertsGrad>();
  ExpertsShape s = shape_of(a, input(op, ExpertsGrad::kUp), a.saved, true);
  s.sums = a.accum_dtype;
  return s;
}

std::optional<kernels::AdaptedExpertsShape> adapted_experts_shape(const Op& op, ValueSpan values) {
  const auto shape_of = [&]<class A>(const A& a) -> std::optional<kernels::AdaptedExpertsShape> {
    if (!a.adapters.any()) return std::nullopt;
    const auto rank = [&](typename A::In slot) {
      const ValueId v = input(op, slot);
      return v == kNone ? 0 : values[v].shape[1];
    };
    kernels::AdaptedExpertsShape s;
    s.experts = experts_shape(op, values);
    s.up_rank = rank(A::kUpA);
    s.down_rank = rank(A::kDownA);
    s.scale = static_cast<float>(a.adapters.scale);
    if constexpr (std::is_same_v<A, ExpertsGrad>) s.trained = !a.frozen;
    return s;
  };
  if (const Experts* const a = op.if_as<Experts>()) return shape_of(*a);
  return shape_of(op.as<ExpertsGrad>());
}

const kernels::GpuAttention* PreparedKernels::attention(const Op& op, ValueSpan values) {
  const std::optional<kernels::AttentionShape> shape = attention_shape(op, values);
  if (!shape) return nullptr;
  return attention_.get(*shape, [&] { return backend_->attention(*shape); });
}

const kernels::Gemm& PreparedKernels::product(const MatmulShape& shape) {
  return *products_.get(shape, [&] { return backend_->product(shape); });
}

const kernels::LmHead& PreparedKernels::head(const LinearCrossEntropyShape& shape) {
  return *heads_.get(shape, [&] { return backend_->head(shape); });
}

const kernels::Experts& PreparedKernels::experts(const ExpertsShape& shape) {
  return *experts_.get(shape, [&] { return backend_->experts(shape); });
}

const kernels::PreparedKernel& PreparedKernels::experts(const Op& op, ValueSpan values) {
  const auto adapted = adapted_experts_shape(op, values);
  if (!adapted) return experts(experts_shape(op, values));
  return *adapted_experts_.get(
      *adapted, [&] { return std::make_unique<kernels::AdaptedExperts>(*adapted, *backend_); });
}

const kernels::OrthogonalMatrices& PreparedKernels::orthogonal(const Op& op, ValueSpan values) {
  const NewtonSchulz& a = op.as<NewtonSchulz>();
  const Value& x = values[op.inputs[NewtonSchulz::kX]];
  const kernels::NewtonSchulzShape shape = {x.shape[0], x.shape[1], x.shape[2],
                                            x.dtype,    a.steps,    a.coefficients};
  return *orthogonal_.get(
      shape, [&] { return std::make_unique<kernels::OrthogonalMatrices>(shape, *backend_); });
}

const kernels::PreparedKernel* PreparedKernels::prepared(const Op& op, ValueSpan values) {
  return on_chunk(op, values,
                  [this](const Op& of, ValueSpan own) { return prepared_whole(of, own); });
}

const kernels::PreparedKernel* PreparedKernels::prepared_whole(const Op& op, ValueSpan values) {
  switch (rule_of(op).prepared) {
    case Prepared::kProduct:
      return &product(product_shape(op, values));
    case Prepared::kHead:
      return &head(head_shape(op, values));
    case Prepared::kAttention:
      return attention(op, values);
    case Prepared::kExperts:
      return &experts(op, values);
    case Prepared::kNewtonSchulz:
      return &orthogonal(op, values);
    case Prepared::kNothing:
      break;
  }
  return nullptr;
}

int64_t PreparedKernels::workspace_bytes(const Op& op, ValueSpan values) {
  const Binding& binding = binding_of(op.kind());
  if (binding.workspace_bytes == nullptr) return 0;
  BoundOp b = bound_to_shapes(op, values);
  b.launch.threads = backend_->threads();
  b.kernels = &table();
  b.prepared = prepared(op, values);
  return binding.workspace_bytes(b);
}

Target PreparedKernels::target() {
  Target t;
  t.alignment = backend_->alignment();
  t.ordered_transfers = backend_->has_streams();
  t.workspace_bytes = [this](const Op& op, ValueSpan values) {
    return on_chunk(op, values,
                    [this](const Op& of, ValueSpan own) { return workspace_bytes(of, own); });
  };
  t.packed_bytes = [this](const Op& op, ValueSpan values) {
    return on_chunk(op, values, [this](const Op& of, ValueSpan own) {
      return product(product_shape(of, own)).packed_bytes();
    });
  };
  return t;
}

}  // namespace tessera::runtime

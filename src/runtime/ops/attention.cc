// Bindings of attention and its gradient. They use the prepared kernel (cuDNN or our own) if there
// is one, else the kernel of the table.
#include "kernels/gpu_attention.h"
#include "runtime/binding.h"
#include "runtime/ops/arguments.h"

namespace tessera::runtime {
namespace {

// Sets the operands that attention and its gradient have in common. A is the op.
template <class A, class Args>
void bind(const BoundOp& b, const Attention& of, Args& args) {
  args.qkv = b.in(A::kQkv);
  args.scale = static_cast<float>(of.scale);
  args.scope.causal = !of.non_causal;
  args.scope.window = of.window;
  args.scope.soft_cap = static_cast<float>(of.soft_cap);
  args.kv = b.in(A::kKv);
  args.scope.bias = b.in(A::kBias);
  args.scope.bias_distance = of.bias_distance;
  if (of.mask != Mask::kNothing)
    (of.mask == Mask::kDocuments ? args.scope.documents : args.scope.ids) = b.in(A::kMask);
  const ValueId qkv = b.op->inputs[A::kQkv];
  const GlobalBox place = b.extents(qkv);
  // A rank may have some of the queries only if the keys are an operand of their own.
  const bool part = of.separate_kv && !of.non_causal;
  args.scope.first_query = part ? place.begin[1] : 0;
  if (of.dropout == 0) return;
  const int64_t queries = args.qkv.shape[3] - (of.separate_kv ? 0 : 2);  // query heads per group
  args.dropout = {dropout_of(b, of.dropout, of.key, b.in(A::kStep)), b.in(A::kSamples),
                  place.begin[2] * queries, args.scope.first_query,
                  part ? b.values[qkv].shape[1] : 0};
}

kernels::AttentionArgs args(const BoundOp& b) {
  kernels::AttentionArgs a;
  bind<Attention>(b, b.op->as<Attention>(), a);
  a.out = b.out(Attention::kOut);
  a.lse = b.out(Attention::kLse);
  a.sinks = b.in(Attention::kSinks);
  return a;
}

kernels::AttentionGradArgs grad_args(const BoundOp& b) {
  kernels::AttentionGradArgs a;
  bind<AttentionGrad>(b, b.op->as<AttentionGrad>().of, a);
  a.out = b.in(AttentionGrad::kOut);
  a.lse = b.in(AttentionGrad::kLse);
  a.d_out = b.in(AttentionGrad::kDOut);
  a.d_qkv = b.out(AttentionGrad::kDQkv);
  a.d_kv = b.out(AttentionGrad::kDKv);
  a.d_bias = b.out(AttentionGrad::kDBias);
  a.fresh_bias = b.is_fresh(AttentionGrad::kDBias);
  return a;
}

void run_sinks_grad(const BoundOp& b) {
  b.clear_if_fresh(AttentionSinksGrad::kDSinks);
  b.run(kernels::SinksGradArgs{b.in(AttentionSinksGrad::kSinks), b.in(AttentionSinksGrad::kOut),
                               b.in(AttentionSinksGrad::kDOut), b.in(AttentionSinksGrad::kLse),
                               b.out(AttentionSinksGrad::kDSinks),
                               b.op->as<AttentionSinksGrad>().by_head});
}

template <auto kArgs>
void run(const BoundOp& b) {
  if (const auto* const prepared = static_cast<const kernels::GpuAttention*>(b.prepared))
    prepared->run(b.launch, kArgs(b));
  else
    b.run(kArgs(b));
}

template <auto kArgs>
int64_t workspace(const BoundOp& b) {
  return b.prepared ? b.prepared->workspace_bytes() : b.workspace_bytes(kArgs(b));
}

}  // namespace

template <>
const Binding& binding_for<Attention>() {
  static constexpr Binding kBinding = {run<args>, workspace<args>};
  return kBinding;
}
template <>
const Binding& binding_for<AttentionSinksGrad>() {
  static constexpr Binding kBinding = {run_sinks_grad};
  return kBinding;
}
template <>
const Binding& binding_for<AttentionGrad>() {
  static constexpr Binding kBinding = {run<grad_args>, workspace<grad_args>};
  return kBinding;
}

}  // namespace tessera::runtime

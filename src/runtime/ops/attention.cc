// Bindings of attention and its gradient. They use the prepared kernel (cuDNN or our own) if there
// is one, else the kernel of the table.
#include <utility>

#include "kernels/gpu_attention.h"
#include "runtime/binding.h"
#include "runtime/ops/arguments.h"
#include "runtime/ops/query_ranges.h"

namespace tessera::runtime {
namespace {

// Sets the operands that attention and its gradient have in common. A is the type of the op.
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

// ---- Queries that are two ranges of a sequence (ContextCut::kZigzag). A kernel computes one range
// of one sample, so it runs once for each. The workspace has the log-sum-exps of a range, which are
// not contiguous in the operand; the terms that a range adds to the gradient of keys and values;
// and the workspace of the kernel:   [ lse | d_kv | kernel ]

// The parts of the workspace, for ranges of half of the tokens of a rank.
struct RangeWorkspace {
  int64_t lse_bytes, kv_bytes;
  int64_t bytes() const { return lse_bytes + kv_bytes; }
};
RangeWorkspace range_workspace(const TensorView& lse, const TensorView& d_kv) {
  constexpr int64_t kAligned = 64;
  const auto aligned = [](int64_t n) { return (n + kAligned - 1) / kAligned * kAligned; };
  const bool gradient = d_kv.shape.rank() > 0;
  return {aligned(lse.bytes() / lse.shape[0] / 2),
          gradient ? aligned(d_kv.bytes() / d_kv.shape[0]) : 0};
}

// The workspace of ring attention: the log-sum-exps of a range, of all tokens or of half of them.
RangeWorkspace ring_workspace(const BoundOp& b, const TensorView& lse) {
  RangeWorkspace w = range_workspace(lse, {});
  if (!is_zigzag(b)) w.lse_bytes *= 2;
  return w;
}

// Returns the arguments for one range of one sample.
template <class Args>
Args of_range(const BoundOp& b, const Args& all, int64_t sample, const TokenRange& r) {
  Args a = all;
  a.qkv = tokens_of(all.qkv, sample, r);
  a.out = tokens_of(all.out, sample, r);
  a.lse = {b.launch.workspace, all.lse.dtype, {1, all.lse.shape[1], r.count}};
  a.kv = sample_of(all.kv, sample);
  a.scope.documents = sample_of(all.scope.documents, sample);
  a.scope.first_query = a.dropout.first_query = r.first;
  a.dropout.samples = sample_of(all.dropout.samples, sample);
  if constexpr (requires { a.d_qkv; }) {
    a.d_out = tokens_of(all.d_out, sample, r);
    a.d_qkv = tokens_of(all.d_qkv, sample, r);
    a.d_kv = sample_of(all.d_kv, sample);
  }
  return a;
}

// Returns the copy of a range's log-sum-exps from [B, H, T] to the workspace.
kernels::CopyRowsArgs lse_rows(const BoundOp& b, const TensorView& lse, int64_t sample,
                               const TokenRange& r) {
  const int64_t heads = lse.shape[1], tokens = lse.shape[2], element = size_of(lse.dtype);
  return {.to = b.launch.workspace,
          .to_pitch = r.count * element,
          .from = lse.at(sample * heads * tokens + r.local),
          .from_pitch = tokens * element,
          .bytes = r.count * element,
          .rows = heads};
}

template <class Args>
void run_range(const BoundOp& b, const RangeWorkspace& own, const Args& args) {
  kernels::Launch launch = b.launch;
  launch.workspace = b.launch.room<std::byte>(own.bytes());
  b.kernels->of<Args>().run(launch, args);
}

void run_ranges(const BoundOp& b, const kernels::AttentionArgs& all) {
  const RangeWorkspace own = range_workspace(all.lse, {});
  each_range(b, all.qkv.shape[0], [&](int64_t sample, const TokenRange& r, size_t) {
    run_range(b, own, of_range(b, all, sample, r));
    kernels::CopyRowsArgs c = lse_rows(b, all.lse, sample, r);
    c.from = std::exchange(c.to, all.lse.at(sample * c.rows * all.lse.shape[2] + r.local));
    std::swap(c.to_pitch, c.from_pitch);
    b.run(c);
  });
}

// The first range of a sample writes the gradient of keys and values, later ones add to it.
void run_ranges(const BoundOp& b, const kernels::AttentionGradArgs& all) {
  const RangeWorkspace own = range_workspace(all.lse, all.d_kv);
  each_range(b, all.qkv.shape[0], [&](int64_t sample, const TokenRange& r, size_t index) {
    b.run(lse_rows(b, all.lse, sample, r));
    kernels::AttentionGradArgs a = of_range(b, all, sample, r);
    const TensorView sum = a.d_kv;
    if (index > 0) a.d_kv.data = b.launch.room<std::byte>(own.lse_bytes);
    run_range(b, own, a);
    if (index == 0) return;
    const int64_t columns = sum.shape[-1];
    kernels::SumArgs add;
    add.terms = {as_rows(sum, columns), as_rows(a.d_kv, columns)};
    add.out = as_rows(sum, columns);
    b.run(add);
  });
}

// Returns the workspace, from the shapes of a range.
template <class Args>
int64_t ranges_workspace(const BoundOp& b, const Args& all) {
  TensorView d_kv;
  if constexpr (requires { all.d_kv; }) d_kv = all.d_kv;
  const TokenRange half = {0, 0, all.qkv.shape[1] / 2};
  const RangeWorkspace own = range_workspace(all.lse, d_kv);
  return own.bytes() + b.workspace_bytes(of_range(b, all, 0, half));
}

// ---- Ring attention: the operand has the block of keys of one visit. The kernel computes
// attention of a range of queries to a range of keys of one sample, and continues from the output
// and the log-sum-exp of the ranges before. Ranges of two blocks never overlap in part, so keys of
// a later range than the queries are all masked. Workspace:   [ lse | kernel ]

const Attention& attention_of(const Op& op) {
  const AttentionGrad* const gradient = op.if_as<AttentionGrad>();
  return gradient ? gradient->of : op.as<Attention>();
}

// Returns the ranges of the keys that visit this rank.
std::vector<TokenRange> visiting_ranges(const BoundOp& b, const Attention& a) {
  const Value& queries = b.values[b.op->inputs[0]];
  const GlobalBox box = b.extents(b.op->inputs[0]);
  const int64_t count = box.end[1] - box.begin[1], own = box.begin[1] / count;
  const int64_t first = (own + a.ring - (a.visit - 1)) % a.ring * count;
  if (!is_zigzag(b)) return {{0, first, count}};
  return token_ranges(queries.shape[1], a.ring, first, count);
}

// Returns true if a query of the range sees a key of the other.
bool sees(const TokenRange& queries, const TokenRange& keys, int64_t window) {
  if (keys.first > queries.first) return false;
  return window == 0 || keys.first + keys.count > queries.first - window + 1;
}

// Calls f(sample, queries, keys) for all ranges with visible pairs. Keys at the place of the
// queries come first, because each of these queries sees one of them: itself.
template <class F>
void each_pair(const BoundOp& b, int64_t samples, const F& f) {
  const Attention& a = attention_of(*b.op);
  const std::vector<TokenRange> visiting = visiting_ranges(b, a);
  each_range(b, samples, [&](int64_t sample, const TokenRange& queries, size_t) {
    for (const bool same : {true, false})
      for (const TokenRange& keys : visiting)
        if ((keys.first == queries.first) == same && sees(queries, keys, a.window))
          f(sample, queries, keys);
  });
}

// Returns the arguments for one pair of ranges.
template <class Args>
Args of_pair(const BoundOp& b, const Args& all, int64_t sample, const TokenRange& queries,
             const TokenRange& keys) {
  Args a = of_range(b, all, sample, queries);
  const int64_t tokens = b.values[b.op->inputs[0]].shape[1];
  a.kv = tokens_of(all.kv, sample, keys);
  a.scope.first_key = a.dropout.first_key = keys.first;
  a.scope.tokens = a.dropout.keys = tokens;
  if constexpr (requires { a.d_kv; }) a.d_kv = tokens_of(all.d_kv, sample, keys);
  return a;
}

void run_visit(const BoundOp& b, const kernels::AttentionArgs& all) {
  const RangeWorkspace own = ring_workspace(b, all.lse);
  const bool starts = b.op->as<Attention>().visit == 1;
  if (!starts) {
    b.copy_unless_shared(b.in(Attention::kPartOut), all.out);
    b.copy_unless_shared(b.in(Attention::kPartLse), all.lse);
  }
  each_pair(b, all.qkv.shape[0], [&](int64_t sample, const TokenRange& q, const TokenRange& k) {
    kernels::AttentionArgs a = of_pair(b, all, sample, q, k);
    a.continues = !starts || k.first != q.first;
    kernels::CopyRowsArgs c = lse_rows(b, all.lse, sample, q);
    if (a.continues) {
      b.run(c);
      a.sinks = {};
    }
    run_range(b, own, a);
    c.from = std::exchange(c.to, all.lse.at(sample * c.rows * all.lse.shape[2] + q.local));
    std::swap(c.to_pitch, c.from_pitch);
    b.run(c);
  });
}

void run_visit(const BoundOp& b, const kernels::AttentionGradArgs& all) {
  const RangeWorkspace own = ring_workspace(b, all.lse);
  if (b.op->as<AttentionGrad>().of.visit == 1)
    b.run(kernels::ClearArgs{all.d_qkv});
  else
    b.copy_unless_shared(b.in(AttentionGrad::kPartDQkv), all.d_qkv);
  b.run(kernels::ClearArgs{all.d_kv});
  each_pair(b, all.qkv.shape[0], [&](int64_t sample, const TokenRange& q, const TokenRange& k) {
    b.run(lse_rows(b, all.lse, sample, q));
    kernels::AttentionGradArgs a = of_pair(b, all, sample, q, k);
    a.add = true;
    run_range(b, own, a);
  });
}

// Returns the workspace, from the shapes of a pair of ranges.
template <class Args>
int64_t visit_workspace(const BoundOp& b, const Args& all) {
  const TokenRange range = {0, 0, all.qkv.shape[1] / (is_zigzag(b) ? 2 : 1)};
  return ring_workspace(b, all.lse).bytes() + b.workspace_bytes(of_pair(b, all, 0, range, range));
}

template <auto kArgs>
void run(const BoundOp& b) {
  if (attention_of(*b.op).visit > 0) return run_visit(b, kArgs(b));
  if (is_zigzag(b)) return run_ranges(b, kArgs(b));
  if (const auto* const prepared = static_cast<const kernels::GpuAttention*>(b.prepared))
    prepared->run(b.launch, kArgs(b));
  else
    b.run(kArgs(b));
}

template <auto kArgs>
int64_t workspace(const BoundOp& b) {
  if (attention_of(*b.op).visit > 0) return visit_workspace(b, kArgs(b));
  if (is_zigzag(b)) return ranges_workspace(b, kArgs(b));
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

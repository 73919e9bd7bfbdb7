// Maps our packed arrays of attention to cuDNN's [batch, heads, rows, D] tensors with strides, and
// divides one attention into runs. With slots = G + 2 for qkv in one array:
//
//   one token of qkv:  group 0: q0 … q(G-1) k v | group 1: q0 … q(G-1) k v | …
//                      stride of groups: slots D, of the heads in a group: D
//
// With G > 1 the query heads of all groups have no common stride, so the groups become cuDNN's
// batch and a run has one sample. With G = 1, or with keys in a separate array, heads have one
// stride and samples are the batch.
#include "kernels/gpu/cudnn.h"

#include "base/error.h"

namespace tessera::kernels::gpu {
namespace {

int64_t query_slots(const AttentionShape& s) { return s.g + (s.apart ? 0 : 2); }
int64_t key_slots(const AttentionShape& s) { return s.apart ? 2 : s.g + 2; }
bool groups_are_batch(const AttentionShape& s) { return s.g > 1 && !s.apart; }

// Returns the largest divisor of n that is at most `most`, and at least 1.
int64_t divisor(int64_t n, double most) {
  int64_t d = n;
  while (d > 1 && (n % d != 0 || static_cast<double>(d) > most)) --d;
  return d;
}

// The first sample and group of a run.
struct First {
  int64_t sample, group;
};
First first(const DnnParts& p, int64_t run) {
  const int64_t of_sample = p.shape.kv / p.kv;
  return {run / of_sample * p.samples, run % of_sample * p.kv};
}

int64_t query_at(const AttentionShape& s, First f) {
  return (f.sample * s.t * s.kv + f.group) * query_slots(s) * s.d;
}
int64_t key_at(const AttentionShape& s, First f, bool value) {
  const int64_t slots = key_slots(s);
  return ((f.sample * s.s * s.kv + f.group) * slots + slots - (value ? 1 : 2)) * s.d;
}
int64_t out_at(const AttentionShape& s, First f) {
  return (f.sample * s.t * s.kv + f.group) * s.g * s.d;
}

// Returns the operands that the forward and the gradient share.
template <class Kernel>
DnnOperands common(const AttentionShape& s, const Kernel& a, First f) {
  const TensorView& keys = s.apart ? a.kv : a.qkv;
  DnnOperands o;
  o.q = a.qkv.at(query_at(s, f));
  o.k = keys.at(key_at(s, f, false));
  o.v = keys.at(key_at(s, f, true));
  o.out = a.out.at(out_at(s, f));
  o.stats = a.lse.f32() + (f.sample * s.kv + f.group) * s.g * s.t;
  const TensorView& labels = s.documents ? a.scope.documents : a.scope.ids;
  if (s.documents || s.padding) o.labels = labels.as<int32_t>() + f.sample * s.s;
  return o;
}

}  // namespace

DnnParts DnnParts::whole(const AttentionShape& shape) {
  return {shape, groups_are_batch(shape) ? 1 : shape.b, shape.kv};
}

DnnParts DnnParts::smaller(double times) const {
  // Reduces the samples per run first, which keeps heads together, then the groups of heads.
  const double wanted = static_cast<double>(samples * kv) / times;
  if (wanted >= static_cast<double>(kv)) {
    const int64_t fewer = divisor(shape.b, wanted / static_cast<double>(kv));
    if (fewer < samples) return {shape, fewer, kv};
  }
  return {shape, 1, divisor(shape.kv, wanted)};
}

DnnShape DnnParts::run_shape() const {
  const AttentionShape& s = shape;
  const int64_t q_slots = query_slots(s), k_slots = key_slots(s);
  DnnShape n;
  n.dtype = s.dtype;
  n.gradient = s.gradient;
  n.causal = s.causal;
  if (s.documents) n.labels = DnnLabels::kSame;
  if (s.padding) n.labels = DnnLabels::kNotZero;
  n.scale = s.scale;
  n.queries = s.t;
  n.keys = s.s;
  n.d = s.d;
  n.q.row = s.kv * q_slots * s.d;
  n.k.row = s.kv * k_slots * s.d;
  n.out.row = s.kv * s.g * s.d;
  if (groups_are_batch(s)) {
    n.batch = kv;
    n.heads = s.g;
    n.kv_heads = 1;
    n.q.batch = n.k.batch = k_slots * s.d;
    n.q.head = s.d;
    n.k.head = k_slots * s.d;  // only one key head: unused
    n.out.batch = s.g * s.d;
  } else {
    n.batch = samples;
    n.heads = kv * s.g;
    n.kv_heads = kv;
    n.q.batch = s.t * n.q.row;
    n.k.batch = s.s * n.k.row;
    n.q.head = s.apart ? s.d : q_slots * s.d;
    n.k.head = k_slots * s.d;
    n.out.batch = s.t * n.out.row;
    n.label_batch = samples > 1 ? s.s : 0;
  }
  n.out.head = s.d;
  n.v = n.k;
  n.stats_head = s.t;
  n.stats_batch = n.heads * s.t;
  return n;
}

DnnOperands DnnParts::operands(const AttentionArgs& a, int64_t i) const {
  return common(shape, a, first(*this, i));
}

DnnOperands DnnParts::operands(const AttentionGradArgs& a, int64_t i) const {
  const First f = first(*this, i);
  DnnOperands o = common(shape, a, f);
  const TensorView& d_keys = shape.apart ? a.d_kv : a.d_qkv;
  o.d_out = a.d_out.at(out_at(shape, f));
  o.dq = a.d_qkv.at(query_at(shape, f));
  o.dk = d_keys.at(key_at(shape, f, false));
  o.dv = d_keys.at(key_at(shape, f, true));
  return o;
}

}  // namespace tessera::kernels::gpu

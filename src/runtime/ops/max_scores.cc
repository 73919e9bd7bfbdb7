// Binding of max_scores. A rank measures its own heads, queries and samples; the program reduces
// the maxima over ranks.
#include "ir/ops.h"
#include "runtime/ops/query_ranges.h"

namespace tessera::runtime {
namespace {

using A = MaxScores;

// Returns the arguments of all queries of this rank.
kernels::MaxScoresArgs args(const BoundOp& b) {
  const A& a = b.op->as<A>();
  const GlobalBox place = b.extents(b.op->inputs[A::kQkv]);
  kernels::MaxScoresArgs out;
  out.qkv = b.in(A::kQkv);
  out.most = part(flat(b.out(A::kMaxScores)), place.begin[2], place.end[2]);
  out.scale = static_cast<float>(a.scale);
  out.kv = b.in(A::kKv);
  out.scope.window = a.window;
  out.scope.documents = b.in(A::kDocuments);
  out.scope.first_query = a.separate_kv ? place.begin[1] : 0;
  return out;
}

// Returns the arguments of one range of queries of one sample.
kernels::MaxScoresArgs of_range(const kernels::MaxScoresArgs& all, int64_t sample,
                                const TokenRange& r) {
  kernels::MaxScoresArgs a = all;
  a.qkv = tokens_of(all.qkv, sample, r);
  a.kv = sample_of(all.kv, sample);
  a.scope.documents = sample_of(all.scope.documents, sample);
  a.scope.first_query = r.first;
  return a;
}

bool has_ranges(const BoundOp& b) { return b.op->as<A>().separate_kv && is_zigzag(b); }

void run(const BoundOp& b) {
  b.clear_if_fresh(A::kMaxScores);
  const kernels::MaxScoresArgs all = args(b);
  if (!has_ranges(b)) return b.run(all);
  each_range(b, all.qkv.shape[0],
             [&](int64_t sample, const TokenRange& r, size_t) { b.run(of_range(all, sample, r)); });
}

int64_t workspace(const BoundOp& b) {
  const kernels::MaxScoresArgs all = args(b);
  if (!has_ranges(b)) return b.workspace_bytes(all);
  return b.workspace_bytes(of_range(all, 0, {0, 0, all.qkv.shape[1] / 2}));
}

}  // namespace

template <>
const Binding& binding_for<MaxScores>() {
  static constexpr Binding kBinding = {run, workspace};
  return kBinding;
}

}  // namespace tessera::runtime

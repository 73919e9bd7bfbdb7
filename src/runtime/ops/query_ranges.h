// The ranges of a sequence that a rank has, for ops whose kernels compute one range of one sample.
#pragma once

#include <vector>

#include "runtime/binding.h"

namespace tessera::runtime {

// Returns true if the queries of the op are two ranges of a sequence (ContextCut::kZigzag).
inline bool is_zigzag(const BoundOp& b) {
  return b.values[b.op->inputs[0]].sharding.cut == ContextCut::kZigzag;
}

// Returns one sample of [B, …]; an operand that the op does not have stays empty. Shapes may come
// without memory.
inline TensorView sample_of(const TensorView& x, int64_t sample) {
  if (x.shape.rank() == 0) return x;
  const int64_t n = x.elements() / x.shape[0];
  std::vector<int64_t> dims = x.shape.dims();
  dims[0] = 1;
  return {x.at(sample * n), x.dtype, Shape(dims)};
}

// Returns a range of the tokens of one sample of [B, T, …].
inline TensorView tokens_of(const TensorView& x, int64_t sample, const TokenRange& r) {
  std::vector<int64_t> dims = x.shape.dims();
  const int64_t token = x.shape.product(2, x.shape.rank());
  const int64_t first = (sample * dims[1] + r.local) * token;
  dims[0] = 1;
  dims[1] = r.count;
  return {x.at(first), x.dtype, Shape(dims)};
}

// Calls f(sample, range, index of the range) for all ranges of queries.
template <class F>
void each_range(const BoundOp& b, int64_t samples, const F& f) {
  const ValueId qkv = b.op->inputs[0];
  const std::vector<TokenRange> ranges =
      token_ranges(b.values[qkv], b.position->mesh, b.extents(qkv));
  for (int64_t sample = 0; sample < samples; ++sample)
    for (size_t i = 0; i < ranges.size(); ++i) f(sample, ranges[i], i);
}

}  // namespace tessera::runtime

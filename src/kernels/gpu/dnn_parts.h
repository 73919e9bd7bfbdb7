// Our packed arrays of attention (kernels/attention.h) as cuDNN's tensors of four dimensions, and
// one attention as several runs.
//
// Queries of a group stand beside their key and value, [B, T, KV, G+2, D]: with G > 1 their heads
// are not evenly apart over all groups. So then a run is of one sample, whose groups are cuDNN's
// batch. Where keys and values are an array of their own, or G = 1, heads are evenly apart and a
// run has samples as its batch. Fewer groups a run need less workspace.
#pragma once

#include "kernels/gpu/cudnn.h"

namespace tessera::kernels::gpu {

struct DnnParts {
  AttentionShape shape;
  int64_t samples = 1, kv = 1;  // of a run; divisors of the shape's

  // As many as a run can have of all samples; of all groups, or of the next fewer ones.
  static DnnParts whole(const AttentionShape& shape);
  // Of one sample at least and one group at least, for about so many times less of the workspace.
  DnnParts smaller(double times) const;

  int64_t runs() const { return shape.b / samples * (shape.kv / kv); }
  DnnShape run_shape() const;
  // Of all, the operands of run `i`.
  DnnOperands operands(const AttentionArgs& a, int64_t i) const;
  DnnOperands operands(const AttentionGradArgs& a, int64_t i) const;
};

}  // namespace tessera::kernels::gpu

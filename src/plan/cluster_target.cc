#include "plan/cluster_target.h"

#include <algorithm>

#include "plan/op_time.h"

namespace tessera {
namespace {

int64_t workspace(const Op& op, ValueSpan values) {
  if (is_staged(op)) return staged_bytes(op, values);
  if (rule_of(op).prepared != Prepared::kHead) return 0;
  const Value &x = values[op.inputs[0]], &w = values[op.inputs[1]];
  const int64_t tokens = x.shape.elements() / w.shape[-1];
  return std::min(tokens, kHeadChunk) * w.shape[0] * (size_of(DType::kF32) + size_of(w.dtype));
}

}  // namespace

Target cluster_target() {
  Target t;
  t.alignment = 256;           // alignment of device allocators and vector loads
  t.ordered_transfers = true;  // as NCCL and similar libraries order them
  t.workspace_bytes = workspace;
  return t;
}

}  // namespace tessera

// Counts the FLOPs of GEMMs and attention, and the bytes of elementwise ops. The cost of an op on a
// chunk is that of an op on values of the size of the chunk.
#include "ir/cost.h"

#include "base/real.h"
#include "ir/chunk.h"
#include "ir/rule.h"

namespace tessera {

std::string_view name_of(GemmKind kind) {
  constexpr EnumArray<GemmKind, std::string_view> kNames = {"forward", "input gradient",
                                                            "weight gradient"};
  return kNames.at(kind);
}

double GemmShape::flops() const { return 2 * real_product(batch, m, n, k); }

double AttentionPairs::flops() const { return 2 * real_product(products, head_size) * pairs; }

double bytes_of(ValueSpan values, ValueId v) { return static_cast<double>(values[v].bytes()); }

// Returns the cost of elementwise ops: each operand is read and each output written once.
Cost sweep_cost(const Op& op, ValueSpan values) {
  Cost c;
  for (const ValueId v : op.inputs) c.bytes += bytes_of(values, v);
  for (const ValueId v : op.outputs) c.bytes += bytes_of(values, v);
  c.moved_bytes = c.bytes;
  return c;
}

Cost cost_of(const Op& op, ValueSpan values) {
  return on_chunk(op, values,
                  [](const Op& of, ValueSpan own) { return rule_of(of).cost(of, own); });
}

}  // namespace tessera

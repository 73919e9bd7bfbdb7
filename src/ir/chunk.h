// Ops on a part of the sequences of a micro-batch. An op's sharding rule determines which of its
// operands have the sequence dimension, the first one. A chunk divides them as a mesh axis would,
// but in time.
#pragma once

#include <optional>
#include <vector>

#include "ir/op.h"
#include "ir/value.h"

namespace tessera {

// Which operands a chunk of an op divides. It uses all of the others, such as weights.
struct ChunkedOperands {
  std::vector<bool> inputs, outputs;
};

// Returns nothing if the op cannot be computed in chunks: an output is a sum over sequences or a
// gradient that calls add to, or the op works along the sequence dimension.
std::optional<ChunkedOperands> chunked_operands(const Op& op, ValueSpan values);

// An op on its chunk, as if its operands were no larger: the operands of `op` are indices into
// `values`.
struct ChunkOp {
  Op op;
  ValueVector values;
};
ChunkOp chunk_op(const Op& op, ValueSpan values);

// Calls f(op, values) for the op or, if it works on a chunk, for what chunk_op() returns.
template <class F>
auto on_chunk(const Op& op, ValueSpan values, F&& f) {
  if (op.chunk.is_whole()) return f(op, values);
  const ChunkOp c = chunk_op(op, values);
  return f(c.op, ValueSpan(c.values));
}

// An operand that an op reads or writes, used to order ops.
struct OperandUse {
  ValueId value;
  Chunk chunk;
  bool writes = false;
};
// Returns the uses of inputs, the packed weight, outputs and the workspace.
std::vector<OperandUse> uses_of(const Op& op, ValueSpan values);
// Returns true if two ops must stay in order, since one writes what the other reads or writes:
// overlapping parts of one value, or values of a buffer that share bytes. The offsets of values
// without a buffer do not matter.
bool in_conflict(const OperandUse& a, const OperandUse& b, ValueSpan values);

// The bytes that an op uses, in the scratch of its segment or in a buffer, once values have
// offsets.
struct TouchedBytes {
  BufferKindId buffer;  // kNone: scratch
  int64_t begin = 0, end = 0;
  ValueId value;
  bool writes = false;
};
std::vector<TouchedBytes> touched_bytes(const Op& op, ValueSpan values);
bool in_conflict(const TouchedBytes& a, const TouchedBytes& b);

}  // namespace tessera

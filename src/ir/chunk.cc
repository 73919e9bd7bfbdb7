// Divides ops along the sequence dimension, and finds which ops must stay in order.
#include "ir/chunk.h"

#include <algorithm>

#include "base/error.h"
#include "ir/rule.h"

namespace tessera {
namespace {

// Returns true if the conversion works along the first dimension.
bool converts_first(const Op& op) {
  return std::visit(
      [](const auto& a) {
        if constexpr (requires { a.dim; })
          return a.dim == 0;
        else if constexpr (requires {
                             a.from;
                             a.to;
                             a.over;
                           })
          return a.from == 0 || a.to == 0;
        else
          return false;
      },
      op.attributes);
}

// An op can be divided by sequences if each sequence of its outputs depends only on that sequence
// of its inputs, that is, if its sharding rule allows a split of the first label of the outputs.
// Losses, statistics and ops on flat state add over sequences. An op that adds to a gradient is not
// divided, since only the first of these ops in a call overwrites the gradient. The first dimension
// of a weight is not a sequence dimension, even if it has the same size.
bool is_divisible(const Op& op, const ShardingRule& rule, ValueSpan values) {
  const Effects& e = rule_of(op).effects;
  if (e.loss || e.flat_state || e.adds_to_report || rule.loss || rule.maximum || is_message(op))
    return false;
  if (op.outputs.empty() || rule.outputs.empty() || rule.outputs[0].empty()) return false;
  const auto is_gradient = [&](ValueId v) { return values[v].role == Role::kGradient; };
  if (std::any_of(op.outputs.begin(), op.outputs.end(), is_gradient)) return false;
  // A conversion leaves all dimensions alone except those along which it works.
  if (e.converts) return !converts_first(op);
  return rule.splits.find(rule.outputs[0][0]) != std::string::npos;
}

}  // namespace

// Operands whose first label is that of the sequences are divided; those without the label, such as
// weights, are read whole by every chunk. If the label is not the first, a chunk would not be a
// contiguous range, so the op is not divided.
std::optional<ChunkedOperands> chunked_operands(const Op& op, ValueSpan values) {
  const auto has = [](ValueId v) { return v != kNone; };
  if (!std::all_of(op.inputs.begin(), op.inputs.end(), has) ||
      !std::all_of(op.outputs.begin(), op.outputs.end(), has))
    return std::nullopt;
  const ShardingRule rule = rule_of(op).sharding(op, values);
  if (!is_divisible(op, rule, values)) return std::nullopt;
  const char sequences = rule.outputs[0][0];
  ChunkedOperands chunked;
  for (const std::string& labels : rule.outputs) {
    if (labels.find(sequences) != 0) return std::nullopt;
    chunked.outputs.push_back(true);
  }
  for (const std::string& labels : rule.inputs) {
    const size_t at = labels.find(sequences);
    if (at != 0 && at != std::string::npos) return std::nullopt;
    chunked.inputs.push_back(at == 0);
  }
  if (chunked.inputs.size() != op.inputs.size() || chunked.outputs.size() != op.outputs.size())
    return std::nullopt;
  return chunked;
}

// Returns the op on one chunk as a separate op, on values of a chunk's size, so that rules and
// costs apply to it unchanged.
ChunkOp chunk_op(const Op& op, ValueSpan values) {
  const std::optional<ChunkedOperands> chunked = chunked_operands(op, values);
  CHECK(chunked, "{} cannot be computed in chunks", op.origin);
  ChunkOp c = {op, {}};
  c.op.chunk = {};
  const auto cut = [&](Shape& shape) {
    std::vector<int64_t> dims = shape.dims();
    CHECK(dims[0] % op.chunk.count == 0, "{} of {} sequences in {} chunks", op.origin, dims[0],
          op.chunk.count);
    dims[0] /= op.chunk.count;
    shape = Shape(dims);
  };
  const auto take = [&](ValueId& v, bool part) {
    Value x = values[v];
    if (part) cut(x.shape);
    if (part && x.part) cut(*x.part);
    v = c.values.push_back(std::move(x));
  };
  for (size_t i = 0; i < op.inputs.size(); ++i) take(c.op.inputs[i], chunked->inputs[i]);
  for (size_t i = 0; i < op.outputs.size(); ++i) take(c.op.outputs[i], chunked->outputs[i]);
  for (ValueId* const v : {&c.op.workspace, &c.op.packed})
    if (*v != kNone) take(*v, false);
  return c;
}

std::vector<OperandUse> uses_of(const Op& op, ValueSpan values) {
  std::optional<ChunkedOperands> chunked;
  if (!op.chunk.is_whole()) chunked = chunked_operands(op, values);
  const auto chunk = [&](bool part) { return part ? op.chunk : Chunk(); };
  std::vector<OperandUse> all;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (op.inputs[i] != kNone)
      all.push_back({op.inputs[i], chunk(chunked && chunked->inputs[i]), false});
  if (op.packed != kNone) all.push_back({op.packed, {}, false});
  for (size_t i = 0; i < op.outputs.size(); ++i)
    if (op.outputs[i] != kNone)
      all.push_back({op.outputs[i], chunk(chunked && chunked->outputs[i]), true});
  if (op.workspace != kNone) all.push_back({op.workspace, {}, true});
  return all;
}

// Two uses conflict if one of them writes and they share bytes: chunks of one value that overlap,
// or two values in one buffer whose offsets overlap.
bool in_conflict(const OperandUse& a, const OperandUse& b, ValueSpan values) {
  if (!a.writes && !b.writes) return false;
  if (a.value == b.value) return a.chunk.overlaps(b.chunk);
  const Value &x = values[a.value], &y = values[b.value];
  return x.buffer != kNone && x.buffer == y.buffer && x.offset < y.offset + y.bytes() &&
         y.offset < x.offset + x.bytes();
}

std::vector<TouchedBytes> touched_bytes(const Op& op, ValueSpan values) {
  std::vector<TouchedBytes> all;
  for (const OperandUse& t : uses_of(op, values)) {
    const Value& v = values[t.value];
    const int64_t part = v.bytes() / t.chunk.count, begin = v.offset + t.chunk.index * part;
    all.push_back({v.buffer, begin, begin + part, t.value, t.writes});
  }
  return all;
}

bool in_conflict(const TouchedBytes& a, const TouchedBytes& b) {
  return (a.writes || b.writes) && a.buffer == b.buffer && a.begin < b.end && b.begin < a.end;
}

}  // namespace tessera

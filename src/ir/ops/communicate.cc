// Rules of conversions between placements, and of messages. The gradient of a conversion is the
// conversion between the duals of its placements.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"
#include "ir/signature.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer(const Op& op, const Inputs& in) {
  CHECK(in.size() == 1, "{} expects one input", name_of(op.kind()));
  return {{"", in[0]->dtype, in[0]->shape}};
}

std::vector<OutputSpec> infer_send(const Op&, const Inputs& in) {
  CHECK(in.size() == 1, "send expects one input");
  return {};
}

std::vector<OutputSpec> infer_receive(const Op& op, const Inputs& in) {
  CHECK(in.empty(), "receive expects no input");
  const Receive& a = op.as<Receive>();
  return {{"", a.type, a.shape}};
}

void gradient(Gradients& g, const Op& op) {
  const ValueId x = op.inputs[0], dy = g.of(op.outputs[0]);
  if (dy == kNone || !g.wanted(x)) return;
  const ValueId dx = g.builder().convert(dy, dual(g[x].sharding));
  if (g[x].role == Role::kWeight)
    g.builder().emit(Accumulate{}, op.origin, {dx}, {g.weight(x)});
  else
    g.add(x, dx);
}

// Conversions are checked by verify_sharding, not against signatures, so no label is a split.
ShardingRule any(const Op& op, ValueSpan values) {
  const auto label = [&](ValueId v) {
    return std::string("abcdefgh").substr(0, values[v].shape.rank());
  };
  ShardingRule r;
  for (const ValueId v : op.inputs) r.inputs.push_back(label(v));
  for (const ValueId v : op.outputs) r.outputs.push_back(label(v));
  return r;
}

// Any label can be split, and the shards of other ranks can be terms of a sum.
ShardingRule rotate_sharding(const Op& op, ValueSpan values) {
  ShardingRule r = any(op, values);
  r.splits = r.inputs[0];
  r.linear = {{0}};
  return r;
}

}  // namespace

bool communicates(const Op& op) { return rule_of(op).effects.comm != CommKind::kSilent; }
bool is_message(const Op& op) {
  const CommKind comm = rule_of(op).effects.comm;
  return comm == CommKind::kSend || comm == CommKind::kReceive;
}
bool reduces(const Op& op) {
  const CommKind comm = rule_of(op).effects.comm;
  return comm == CommKind::kAllReduce || comm == CommKind::kReduceScatter;
}

ValueId whole_operand(const Op& op) { return op.is<AllGather>() ? op.outputs[0] : op.inputs[0]; }

namespace {

// The attributes of a flat reduction other than its group.
struct FlatSum {
  std::optional<DType> wire;
  int64_t pieces = 1, piece = 0;
};
FlatSum flat_sum(const Op& op) {
  if (const AllReduce* const a = op.if_as<AllReduce>()) return {a->wire, a->pieces, a->piece};
  if (const ReduceScatter* const a = op.if_as<ReduceScatter>())
    return {a->wire, a->pieces, a->piece};
  return {};
}

}  // namespace

DType wire_type(const Op& op, const Value& v) { return flat_sum(op).wire.value_or(v.dtype); }

// Piece k of p covers [n k / p, n (k + 1) / p): the sizes of pieces differ by at most one element,
// and there are no gaps.
FlatPiece piece_of(const Op& op, int64_t n) {
  const FlatSum s = flat_sum(op);
  return {n * s.piece / s.pieces, n * (s.piece + 1) / s.pieces};
}

bool is_piece(const Op& op) { return flat_sum(op).pieces > 1; }

bool is_staged(const Op& op) {
  const FlatSum s = flat_sum(op);
  return s.wire.has_value() || (op.is<ReduceScatter>() && is_piece(op));
}

// One term per rank, for this op's piece, in the dtype of the wire.
int64_t staged_bytes(const Op& op, ValueSpan local_values) {
  if (!is_staged(op)) return 0;
  const Value &whole = local_values[op.inputs[0]], &part = local_values[op.outputs[0]];
  const int64_t ranks = whole.shape.elements() / part.shape.elements();
  return ranks * piece_of(op, part.shape.elements()).elements() * size_of(wire_type(op, whole));
}

const OpRule AllReduce::rule = {.infer = infer,
                                .sharding = any,
                                .gradient = gradient,
                                .effects = {.converts = true, .comm = CommKind::kAllReduce}};
const OpRule ReduceScatter::rule = {
    .infer = infer,
    .sharding = any,
    .gradient = gradient,
    .effects = {.converts = true, .comm = CommKind::kReduceScatter}};
const OpRule AllGather::rule = {.infer = infer,
                                .sharding = any,
                                .gradient = gradient,
                                .repeat = Repeat::kAttention,
                                .effects = {.converts = true, .comm = CommKind::kAllGather}};
const OpRule AllToAll::rule = {.infer = infer,
                               .sharding = any,
                               .gradient = gradient,
                               .repeat = Repeat::kAttention,
                               .effects = {.converts = true, .comm = CommKind::kAllToAll}};
const OpRule Rotate::rule = {
    .infer = infer, .sharding = rotate_sharding, .effects = {.comm = CommKind::kRotate}};
const OpRule Slice::rule = {.infer = infer,
                            .sharding = any,
                            .gradient = gradient,
                            .repeat = Repeat::kAttention,
                            .effects = {.converts = true}};
const OpRule Pad::rule = {
    .infer = infer, .sharding = any, .gradient = gradient, .effects = {.converts = true}};
const OpRule MarkShared::rule = {
    .infer = infer, .sharding = any, .gradient = gradient, .effects = {.converts = true}};
const OpRule Send::rule = {
    .infer = infer_send, .sharding = any, .effects = {.comm = CommKind::kSend}};
const OpRule Receive::rule = {
    .infer = infer_receive, .sharding = any, .effects = {.comm = CommKind::kReceive}};

}  // namespace tessera

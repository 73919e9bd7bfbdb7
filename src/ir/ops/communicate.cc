// Changes of place. None changes the global value; attribute `over` names the group (ir/mesh.h).
//   all_reduce       partial → the sum on every rank (`max`: of partial_max, the maximum)
//   reduce_scatter   partial → the sum, split along `dim`
//   all_gather       split along `dim` → whole on every rank
//   slice            whole → its own part along `dim`; no communication
//   pad              its own part → whole, with zeros elsewhere, which is partial; no communication
//   share            replicated → shared: the same value, of which gradients come that differ; only
//                    until differentiate has run
//   send, receive    a stream's frame to and from another stage: `to`/`from` next | previous;
//                    receive has `type` and `shape` (1x128x64), since it has no input
// Of sums of flat frames: attribute `wire`: f32 goes to other ranks in that type (a rank's own
// terms are rounded once, in the workspace); an all_reduce gives its sum rounded once more, a
// reduce_scatter the f32 sum. `piece` of `pieces`: only that of every rank's part (of the whole,
// where all get all).
// The gradient of a conversion is the conversion between the duals of its places.
// Over a flat frame (one dimension): in place where input and output are one value, whose own part
// (the rank's share of the elements) is what is read or left; reduce_scatter into another value
// adds its part there.
#include <charconv>

#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"
#include "ir/signature.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 1 && (a.has("over") || a.has("to")), "communication takes one value");
  return {{"", in[0]->dtype, in[0]->shape}};
}

std::vector<OutputSpec> infer_send(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 1 && a.has("to"), "send takes one value");
  return {};
}

std::vector<OutputSpec> infer_receive(const Attributes& a, const Inputs& in) {
  CHECK(in.empty() && a.has("from"), "receive takes no value");
  std::vector<int64_t> dims;
  const std::string text = a.text("shape");
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    int64_t n = 0;
    at = std::from_chars(at, end, n).ptr + 1;
    dims.push_back(n);
  }
  const auto type = dtype_from_name(a.text("type"));
  CHECK(type.has_value(), "receive of type '{}'", a.text("type"));
  return {{"", *type, Shape(dims)}};
}

void gradient(Gradients& g, const Op& op) {
  const ValueId x = op.inputs[0], dy = g.of(op.outputs[0]);
  if (dy == kNone || !g.wanted(x)) return;
  g.add(x, g.builder().convert(dy, dual(g[x].sharding)));
}

ShardingRule any(const Op& op, ValueSpan values) {
  const auto label = [&](ValueId v) {
    return std::string("abcdefgh").substr(0, static_cast<size_t>(values[v].shape.rank()));
  };
  ShardingRule r;
  for (const ValueId v : op.inputs) r.inputs.push_back(label(v));
  for (const ValueId v : op.outputs) r.outputs.push_back(label(v));
  return r;
}

}  // namespace

bool communicates(const Op& op) { return rule_of(op).effects.wire != WireKind::kSilent; }
bool is_message(const Op& op) {
  const WireKind wire = rule_of(op).effects.wire;
  return wire == WireKind::kSend || wire == WireKind::kReceive;
}
bool reduces(const Op& op) {
  const WireKind wire = rule_of(op).effects.wire;
  return wire == WireKind::kAllReduce || wire == WireKind::kReduceScatter;
}

ValueId whole_operand(const Op& op) {
  return op.kind == OpKind::kAllGather ? op.outputs[0] : op.inputs[0];
}

DType wire_type(const Op& op, const Value& v) {
  return op.attributes.has("wire") ? *dtype_from_name(op.attributes.text("wire")) : v.dtype;
}

FlatPiece piece_of(const Op& op, int64_t n) {
  const int64_t pieces = op.attributes.integer("pieces", 1), k = op.attributes.integer("piece");
  return {n * k / pieces, n * (k + 1) / pieces};
}

bool is_staged(const Op& op) {
  const bool apart = op.kind == OpKind::kReduceScatter && op.attributes.has("pieces");
  return op.attributes.has("wire") || apart;
}

int64_t staged_bytes(const Op& op, ValueSpan local_values) {
  if (!is_staged(op)) return 0;
  const Value &whole = local_values[op.inputs[0]], &part = local_values[op.outputs[0]];
  const int64_t ranks = whole.shape.elements() / part.shape.elements();
  return ranks * piece_of(op, part.shape.elements()).elements() * size_of(wire_type(op, whole));
}

const OpRule kAllReduceRule = {.kind = OpKind::kAllReduce,
                               .name = "all_reduce",
                               .infer = infer,
                               .sharding = any,
                               .gradient = gradient,
                               .effects = {.converts = true, .wire = WireKind::kAllReduce}};
const OpRule kReduceScatterRule = {.kind = OpKind::kReduceScatter,
                                   .name = "reduce_scatter",
                                   .infer = infer,
                                   .sharding = any,
                                   .gradient = gradient,
                                   .effects = {.converts = true, .wire = WireKind::kReduceScatter}};
const OpRule kAllGatherRule = {.kind = OpKind::kAllGather,
                               .name = "all_gather",
                               .infer = infer,
                               .sharding = any,
                               .gradient = gradient,
                               .repeat = Repeat::kAttention,
                               .effects = {.converts = true, .wire = WireKind::kAllGather}};
const OpRule kSliceRule = {.kind = OpKind::kSlice,
                           .name = "slice",
                           .infer = infer,
                           .sharding = any,
                           .gradient = gradient,
                           .repeat = Repeat::kAttention,
                           .effects = {.converts = true}};
const OpRule kPadRule = {.kind = OpKind::kPad,
                         .name = "pad",
                         .infer = infer,
                         .sharding = any,
                         .gradient = gradient,
                         .effects = {.converts = true}};
const OpRule kShareRule = {.kind = OpKind::kShare,
                           .name = "share",
                           .infer = infer,
                           .sharding = any,
                           .gradient = gradient,
                           .effects = {.converts = true}};
const OpRule kSendRule = {.kind = OpKind::kSend,
                          .name = "send",
                          .infer = infer_send,
                          .sharding = any,
                          .effects = {.wire = WireKind::kSend}};
const OpRule kReceiveRule = {.kind = OpKind::kReceive,
                             .name = "receive",
                             .infer = infer_receive,
                             .sharding = any,
                             .effects = {.wire = WireKind::kReceive}};

}  // namespace tessera

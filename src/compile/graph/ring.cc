// Ring attention (Liu et al. 2023): the keys and values of each context-parallel rank visit all
// others. Attention to all of them becomes one op per visit, and between two visits each rank sends
// its block to the next rank. A block is on its way while attention to it is computed:
//   forward    rotate(block 1) → block 2   attention(block 1) → part 1
//              rotate(block 2) → block 3   attention(block 2, part 1) → part 2   …
//   backward   rotate(block 1) → block 2   gradient(block 1) → d_block 1, d_queries
//              rotate(d_block 1)           gradient(block 2) → d_block 2, d_queries
//                                          sum(d_block 1, d_block 2)   …
// After the last visit one more rotation moves the gradient of a block to its own rank.
#include <utility>

#include <fmt/format.h>

#include "compile/graph/graph_passes.h"
#include "ir/builder.h"
#include "ir/operands.h"

namespace tessera::compile {
namespace {

// Appends the ops of one attention op, or of its gradient, to a list.
class RingWriter {
 public:
  // `inner`: messages run on an inner queue, next to the computation.
  RingWriter(Graph& graph, std::vector<Op>& ops, uint8_t per, bool inner)
      : builder_(graph, ops, per, ""), ops_(ops), inner_(inner) {
    builder_.place_outputs();
  }

  void attend(const Op& op);
  void differentiate(const Op& op);

 private:
  // Returns v of the previous rank, in the value `out` if it is given.
  ValueId rotate(ValueId v, const std::string& origin, ValueId out = kNone);
  // Writes v, which is f32, as the output `out` of the op that is replaced.
  void write(ValueId v, ValueId out, const std::string& origin);

  Builder builder_;
  std::vector<Op>& ops_;
  bool inner_;
};

std::string visit_name(const Op& op, int64_t visit) {
  return fmt::format("{}.visit{}", op.origin, visit);
}

// Returns the inputs of an op with the block of a visit as its keys and values.
std::vector<ValueId> inputs_with(const Op& op, int slot, ValueId block) {
  std::vector<ValueId> in = op.inputs;
  in[slot] = block;
  return in;
}

ValueId RingWriter::rotate(ValueId v, const std::string& origin, ValueId out) {
  Rotate around;
  around.over = GroupRef::along({AxisKind::kContext});
  const ValueId arrived = builder_.emit(around, origin, {v}, {out})[0];
  if (inner_) ops_.back().queue = Queue::kTensor;
  return arrived;
}

void RingWriter::write(ValueId v, ValueId out, const std::string& origin) {
  builder_.emit(Cast{builder_[out].dtype}, origin, {v}, {out});
}

void RingWriter::attend(const Op& op) {
  Attention a = op.as<Attention>();
  const int kv = input_index(a, Attention::kKv), sinks = input_index(a, Attention::kSinks);
  const bool is_f32 = builder_[op.outputs[0]].dtype == DType::kF32;
  ValueId block = op.inputs[kv], out = kNone, lse = kNone;
  for (a.visit = 1; a.visit <= a.ring; ++a.visit) {
    const std::string name = visit_name(op, a.visit);
    const bool last = a.visit == a.ring;
    const ValueId next = last ? ValueId(kNone) : rotate(block, name + ".kv");
    std::vector<ValueId> in = inputs_with(op, kv, block);
    if (a.visit > 1) {
      // The sink is a term of the first visit only.
      if (sinks != kNone) in.erase(in.begin() + sinks);
      a.sinks = false;
      in.insert(in.end(), {out, lse});
    }
    std::vector<ValueId> made(2, kNone);
    if (last) made = {is_f32 ? op.outputs[0] : ValueId(kNone), op.outputs[1]};
    made = builder_.emit(a, name, in, made);
    out = made[0];
    lse = made[1];
    block = next;
  }
  if (!is_f32) write(out, op.outputs[0], op.origin);
}

void RingWriter::differentiate(const Op& op) {
  AttentionGrad a = op.as<AttentionGrad>();
  const int kv = input_index(a, AttentionGrad::kKv);
  const bool is_f32 = builder_[op.outputs[0]].dtype == DType::kF32;
  ValueId block = op.inputs[kv], queries = kNone, keys = kNone;
  for (a.of.visit = 1; a.of.visit <= a.of.ring; ++a.of.visit) {
    const std::string name = visit_name(op, a.of.visit);
    const bool last = a.of.visit == a.of.ring;
    const ValueId next = last ? ValueId(kNone) : rotate(block, name + ".kv");
    const ValueId arrived = keys == kNone ? ValueId(kNone) : rotate(keys, name + ".d_kv");
    std::vector<ValueId> in = inputs_with(op, kv, block);
    if (a.of.visit > 1) in.push_back(queries);
    std::vector<ValueId> made(2, kNone);
    if (last && is_f32) made[0] = op.outputs[0];
    made = builder_.emit(a, name, in, made);
    queries = made[0];
    keys = arrived == kNone ? made[1]
                            : builder_.emit_one(Sum{.terms = 2}, name + ".sum", {arrived, made[1]});
    block = next;
  }
  const ValueId home = rotate(keys, op.origin + ".d_kv", is_f32 ? op.outputs[1] : ValueId(kNone));
  if (is_f32) return;
  write(queries, op.outputs[0], op.origin);
  write(home, op.outputs[1], op.origin + ".kv");
}

void rotate_keys(Graph& graph, std::vector<Op>& ops, bool inner) {
  std::vector<Op> old;
  old.swap(ops);
  for (Op& op : old) {
    const Attention* const attention = op.if_as<Attention>();
    const AttentionGrad* const gradient = op.if_as<AttentionGrad>();
    const bool rings =
        attention != nullptr ? attention->ring > 0 : gradient != nullptr && gradient->of.ring > 0;
    if (!rings) {
      ops.push_back(std::move(op));
      continue;
    }
    RingWriter to(graph, ops, graph[op.outputs[0]].indexed_by, inner);
    if (attention != nullptr)
      to.attend(op);
    else
      to.differentiate(op);
  }
}

}  // namespace

void rotate_keys(Graph& graph) {
  for (Block& b : graph.blocks)
    for (std::vector<Op>* const ops : {&b.forward, &b.backward, &b.weights})
      rotate_keys(graph, *ops, b.is_stack());
}

}  // namespace tessera::compile

// Sharding propagation in two passes. The forward pass over all blocks chooses a signature per op
// and mesh axis; values that no rule decides stay free. The backward pass makes free values
// replicated if all their uses are replicated, else shared. Then conversions are inserted where an
// input's sharding differs from the signature's.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compile/graph/choose_signature.h"
#include "compile/graph/graph_passes.h"
#include "compile/graph/rewrite.h"
#include "ir/builder.h"

namespace tessera::compile {
namespace {

// ---- Inserts the conversions that the chosen signatures need. A value that several ops need in
// the same other sharding is converted once, before the first of them.

// Returns true for ops whose outputs are constants for the backward. No gradient passes through
// them, so replicated and shared inputs are equivalent.
bool computes_constants(const Op& op) { return op.is<AdaptedSquares>(); }

// Returns true if the two differ only in whether a value is replicated or shared.
bool same_bytes(const Sharding& a, const Sharding& b) {
  const auto whole = [](int8_t p) { return p == kReplicated || p == kShared; };
  for (const AxisKind axis : Enumerators<AxisKind>())
    if (a.place[axis] != b.place[axis] && !(whole(a.place[axis]) && whole(b.place[axis])))
      return false;
  return true;
}

// An op with the shardings that it needs for its inputs.
struct PlannedOp {
  Op op;
  std::vector<Sharding> wanted;
};

void set_cut(Sharding& s, ContextCut cut) {
  s.cut = s.place[AxisKind::kContext] >= 0 ? cut : ContextCut::kParts;
}

// Returns true if the conversion selects a rank's own heads of a weight, such as sinks, that every
// context-parallel rank holds.
bool is_slice_of_heads(Sharding from, const Sharding& to) {
  if (from.place[AxisKind::kContext] != kShared || to.cut != ContextCut::kHeads) return false;
  from.place[AxisKind::kContext] = to.place[AxisKind::kContext];
  from.cut = to.cut;
  return from == to;
}

void insert_conversions(Graph& graph, Block& block, std::vector<PlannedOp>& plans,
                        const DefaultPlaces& home, uint8_t per) {
  std::vector<Op> ops;
  Builder b(graph, ops, per, "");
  std::map<std::pair<ValueId, EnumArray<AxisKind, int8_t>>, ValueId> made;
  const auto at_places = [&](ValueId v, const Sharding& wanted, bool constant = false) {
    if (graph[v].sharding == wanted) return v;
    if (constant && same_bytes(graph[v].sharding, wanted)) return v;
    CHECK(graph[v].role != Role::kWeight || is_slice_of_heads(graph[v].sharding, wanted),
          "{} is used in two shardings: declare the axis that divides it", graph[v].name);
    const auto [entry, is_new] = made.try_emplace({v, wanted.place}, kNone);
    if (is_new) entry->second = b.convert(v, wanted);
    return entry->second;
  };
  for (PlannedOp& p : plans) {
    for (size_t i = 0; i < p.op.inputs.size(); ++i)
      p.op.inputs[i] = at_places(p.op.inputs[i], p.wanted[i], computes_constants(p.op));
    ops.push_back(std::move(p.op));
  }
  if (block.output != kNone) {
    Sharding wanted = graph[block.output].sharding;
    for (const AxisKind a : divided_axes(graph.mesh))
      wanted.place[a] = home.of(graph[block.output], a);
    set_cut(wanted, home.cut);
    // The block's output is converted to its home sharding, so the next block can be compiled
    // without knowledge of this one. The roles are exchanged: the converted value becomes the
    // hidden states.
    const ValueId leaving = at_places(block.output, wanted);
    if (leaving != block.output) {
      std::swap(graph[leaving].role, graph[block.output].role);
      std::swap(graph[leaving].indexed_by, graph[block.output].indexed_by);
      block.output = leaving;
    }
  }
  block.forward = std::move(ops);
}

class Sharder {
 public:
  Sharder(Graph& graph, const Layout& layout)
      : g_(graph),
        home_{graph.sequences, graph.tokens, graph.encoder_tokens, layout.sequence_parallel,
              layout.context_balance ? ContextCut::kZigzag : ContextCut::kParts},
        axes_(divided_axes(graph.mesh)) {}

  void run() {
    place_inputs();
    plans_.resize(g_.blocks.size());
    for (const BlockId b : g_.blocks.ids()) {
      per_ = index_of(g_.blocks[b]);
      for (const Op& op : g_.blocks[b].forward) plan(Op(op), plans_[b]);
    }
    for (const AxisKind a : axes_)
      CHECK(g_.encoder_output == kNone ||
                place(g_.encoder_output, a) == home_.of(g_[g_.encoder_output], a),
            "{} does not have its home sharding", g_[g_.encoder_output].name);
    for (size_t block = plans_.size(); block-- > 0;) {
      std::vector<PlannedOp>& plans = plans_[BlockId(block)];
      for (size_t i = plans.size(); i-- > 0;) settle(plans[i]);
    }
    settle_weights();
    for (const BlockId b : g_.blocks.ids())
      insert_conversions(g_, g_.blocks[b], plans_[b], home_, index_of(g_.blocks[b]));
    for (Value& v : g_.values) localise(v, g_.mesh);
  }

 private:
  int8_t& place(ValueId v, AxisKind axis) { return g_[v].sharding.place[axis]; }
  uint8_t index_of(const Block& b) const;
  void place_inputs();
  void plan(Op op, std::vector<PlannedOp>& plans);
  void join_partial_terms(Op& op, std::vector<PlannedOp>& plans);
  void settle(PlannedOp& p);
  void settle_weights();

  Graph& g_;
  DefaultPlaces home_;
  std::vector<AxisKind> axes_;
  uint8_t per_ = kOne;  // the index set of values of the current block
  IdVector<BlockId, std::vector<PlannedOp>> plans_;
  // True for free values with a use that is not replicated.
  std::map<std::pair<ValueId, AxisKind>, bool> differ_;
};

uint8_t Sharder::index_of(const Block& b) const {
  const ValueId stream = b.input != kNone ? b.input : b.output;
  return b.is_stack() ? g_[stream].indexed_by : uint8_t{kPerMicrobatch};
}

// Returns the model's placement of a weight on the axis. If the model does not distinguish
// tensor_kv from tensor, tensor_kv is the outer part of the tensor axis.
int8_t declared(const Sharding& model, AxisKind axis) {
  int8_t p = model.place[axis];
  if (p == kReplicated && axis == AxisKind::kTensorKv) p = model.place[AxisKind::kTensor];
  return p == kReplicated ? kFree : p;
}

// Returns true for inputs with one number per token, which context-parallel ranks divide. Document
// numbers are not divided: a query needs those of all keys.
bool is_divided_by_token(const Value& v) {
  return v.role == Role::kTokens || v.role == Role::kLabels || v.role == Role::kPositions ||
         v.role == Role::kMtpTokens || v.role == Role::kMtpLabels || v.role == Role::kAnswers;
}

// Sets the initial placements: weights as the model declares them, else free; sequences divided
// over the data axes, and their tokens over kContext; inputs of blocks in their home sharding.
void Sharder::place_inputs() {
  for (Value& v : g_.values) {
    const Sharding model = v.sharding;
    v.sharding = Sharding();
    for (const AxisKind a : axes_) {
      int8_t& p = v.sharding.place[a];
      if (v.role == Role::kWeight) p = declared(model, a);
      if (is_batch(v.role) && is_data(a)) p = 0;
      if (a == AxisKind::kContext && is_divided_by_token(v)) p = 1;
      if (v.role == Role::kReport) p = kPartial;
    }
    set_cut(v.sharding, home_.cut);
  }
  for (const Block& b : g_.blocks) {
    if (b.input == kNone) continue;
    for (const AxisKind a : axes_) place(b.input, a) = home_.of(g_[b.input], a);
    set_cut(g_[b.input].sharding, home_.cut);
  }
}

void Sharder::plan(Op op, std::vector<PlannedOp>& plans) {
  if (op.is<Sum>()) join_partial_terms(op, plans);
  PlannedOp p{std::move(op), {}};
  for (const ValueId v : p.op.inputs) p.wanted.push_back(g_[v].sharding);
  for (const AxisKind a : axes_) {
    const Signature s = choose_signature(p.op, g_.values, home_, a);
    for (size_t i = 0; i < s.inputs.size(); ++i)
      if (!fits(g_[p.op.inputs[i]], p.wanted[i].place[a], s.inputs[i]))
        p.wanted[i].place[a] = s.inputs[i];
    for (size_t i = 0; i < s.outputs.size(); ++i)
      if (g_[p.op.outputs[i]].role != Role::kReport) place(p.op.outputs[i], a) = s.outputs[i];
  }
  const ContextCut cut = divides_heads(p.op) ? ContextCut::kHeads : home_.cut;
  for (Sharding& s : p.wanted) set_cut(s, cut);
  for (const ValueId v : p.op.outputs) set_cut(g_[v].sharding, cut);
  plans.push_back(std::move(p));
}

// Adds terms with the same partial sharding before they are reduced: one reduction instead of one
// per term.
void Sharder::join_partial_terms(Op& op, std::vector<PlannedOp>& plans) {
  const int64_t terms = op.as<Sum>().terms;
  const auto is_partial = [&](ValueId v) {
    const auto& p = g_[v].sharding.place;
    return std::find(p.begin(), p.end(), kPartial) != p.end();
  };
  std::vector<ValueId> joined, rest;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const ValueId v = op.inputs[i];
    const bool joins = static_cast<int64_t>(i) < terms && is_partial(v) &&
                       (joined.empty() || g_[joined[0]].sharding == g_[v].sharding);
    (joins ? joined : rest).push_back(v);
  }
  if (joined.size() < 2 || rest.empty()) return;
  Op first = op;
  first.as<Sum>().terms = std::ssize(joined);
  first.inputs = joined;
  first.outputs = {clone_value(g_, op.outputs[0], ".partial")};
  g_[first.outputs[0]].role = Role::kActivation;
  g_[first.outputs[0]].indexed_by = per_;
  const auto left = terms - std::ssize(joined);
  rest.insert(rest.begin() + left, first.outputs[0]);
  op.as<Sum>().terms = left + 1;
  op.inputs = rest;
  plan(std::move(first), plans);
}

// Sets the placements of free outputs: replicated if all uses are replicated, else shared. Called
// in reverse order, so every use of an op's outputs is known.
void Sharder::settle(PlannedOp& p) {
  for (const AxisKind a : axes_) {
    const auto is_free = [&](ValueId v) { return place(v, a) == kFree; };
    const bool differs = std::any_of(p.op.outputs.begin(), p.op.outputs.end(), [&](ValueId v) {
      return is_free(v) && differ_[{v, a}];
    });
    const int8_t settled = differs ? kShared : kReplicated;
    for (const ValueId v : p.op.outputs)
      if (is_free(v)) place(v, a) = settled;
    for (size_t i = 0; i < p.op.inputs.size(); ++i) {
      int8_t& wanted = p.wanted[i].place[a];
      if (wanted == kFree) wanted = settled;
      const bool any_whole =
          wanted == kReplicated || (wanted == kShared && computes_constants(p.op));
      if (is_free(p.op.inputs[i]) && !any_whole) differ_[{p.op.inputs[i], a}] = true;
    }
  }
}

void Sharder::settle_weights() {
  for (const ValueId v : g_.values.ids())
    for (const AxisKind a : axes_)
      if (place(v, a) == kFree) place(v, a) = differ_[{v, a}] ? kShared : kReplicated;
}

}  // namespace

void shard(Graph& graph, const Layout& layout) {
  if (graph.mesh[AxisKind::kTensor] * graph.mesh[AxisKind::kTensorKv] > 1)
    divide_cross_entropy(graph);
  Sharder(graph, layout).run();
}

}  // namespace tessera::compile

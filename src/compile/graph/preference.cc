// Replaces the loss over tokens by a loss over pairs of answers (ir/ops/preference.h). Each row of
// a micro-batch has both answers of a pair, as two documents, so no pair crosses a rank of a data
// axis. Where ranks divide sequences or the vocabulary, the shard pass completes the sums.
#include <cmath>

#include "compile/graph/graph_passes.h"
#include "compile/request.h"
#include "ir/builder.h"
#include "ir/operands.h"
#include "model/weight_names.h"

namespace tessera::compile {
namespace {

ValueId batch_value(Graph& g, Role role, DType type, Shape shape) {
  std::vector<Op> none;
  Builder b(g, none, kOne, "");
  return b.value(std::string(value_name(role)), type, std::move(shape), role, kPerMicrobatch);
}

// Returns the log-probabilities of the labels as the two sums of logits_sums, [B, T, 2].
ValueId label_sums(Builder& b, const Block& block, const Op& op) {
  const double cap = op.as<LinearCrossEntropy>().terms.soft_cap;
  const ValueId labels = input(op, LinearCrossEntropy::kLabels);
  const ValueId logits =
      b.emit_one(Matmul{.out = DType::kF32}, block.name + ".logits", {op.inputs[0], op.inputs[1]});
  const ValueId max = b.emit_one(LogitsMax{cap}, op.origin, {logits});
  return b.emit_one(LogitsSums{cap}, op.origin, {logits, max, labels});
}

// Returns the scores of all positions, [B, T, 1], of a linear head in place of the LM head.
ValueId scores(Graph& g, Builder& b, const Block& block, const Op& op) {
  const ValueId x = op.inputs[0], head = op.inputs[1];
  const int64_t width = g[x].shape[-1];
  const ValueId w =
      b.value(std::string(model::kScoreHead), g[head].dtype, {1, width}, Role::kWeight, kOne);
  g[w].decays = true;
  g[w].initial.std = 1 / std::sqrt(static_cast<double>(width + 1));  // Stiennon et al. 2020
  return b.emit_one(Matmul{.out = DType::kF32}, block.name + ".scores", {x, w});
}

// A weight that no op reads is not part of the program.
void drop_unread_weight(Graph& g, ValueId w) {
  for (const Block& block : g.blocks)
    for (const Op& op : block.forward)
      for (const ValueId v : op.inputs)
        if (v == w) return;
  g[w].role = Role::kActivation;
}

}  // namespace

void add_preference_loss(Graph& g, const PreferenceTerms& terms) {
  const int64_t sequences = g.sequences, tokens = g.tokens;
  const ValueId answers = batch_value(g, Role::kAnswers, DType::kI32, {sequences, tokens});
  const ValueId references =
      batch_value(g, Role::kReferences, DType::kF64, {sequences, kReferenceColumns});
  for (Block& block : g.blocks) {
    std::vector<Op> old;
    old.swap(block.forward);
    ValueId head = kNone;
    for (Op& op : old) {
      if (!op.is<LinearCrossEntropy>()) {
        block.forward.push_back(std::move(op));
        continue;
      }
      head = op.inputs[1];
      Builder b(g, block.forward, g[op.inputs[0]].indexed_by, "");
      const bool log_probs = terms.has_log_probs();
      const ValueId x = log_probs ? label_sums(b, block, op) : scores(g, b, block, op);
      const ValueId sums = b.emit_one(AnswerSums{log_probs}, op.origin, {x, answers});
      b.emit(PreferenceLoss{.terms = terms}, op.origin, {sums, references}, op.outputs);
    }
    if (head != kNone) drop_unread_weight(g, head);
  }
}

void keep_answer_sums(Graph& g) {
  for (Block& block : g.blocks)
    for (const Op& op : block.forward) {
      if (!op.is<PreferenceLoss>()) continue;
      Value& sums = g[input(op, PreferenceLoss::kSums)];
      sums.role = Role::kLogits;
      sums.name = std::string(value_name(Role::kLogits));
      sums.indexed_by = kOne;
    }
}

}  // namespace tessera::compile

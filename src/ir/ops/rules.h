// Functions that the rules of several ops share.
#pragma once

#include "ir/ops/attention.h"
#include "ir/rule.h"

namespace tessera {

// Returns the cost of an op that consists of these GEMMs: they do all of its operations.
Cost product_cost(const Op& op, ValueSpan values, Work work, std::vector<GemmShape> products);

// Return the input that the first output may overwrite.
InPlace over_first(const Op& op);
InPlace over_last(const Op& op);
// If a loss also outputs the gradient of the logits, it overwrites the logits.
InPlace over_logits(const Op& op);

// Returns the outputs of an update of weights with this number of moments: weights, moments,
// master.
std::vector<OutputSpec> updated_state(const WeightUpdate& a, const Shape& s, int moments,
                                      bool iterate = false);
// Returns the cost of an update, whose moments and master weights are read as well as written.
Cost update_cost(const Op& op, ValueSpan values);

// Returns the cost of the scores of the pairs that attention like `a` sees; `kv` has the keys if
// they are an operand of their own, else kNone.
Cost cost_of_scores(const Op& op, ValueSpan values, const Attention& a, ValueId kv);

// The rule of all OnePassUpdates.
extern const OpRule kOnePassUpdateRule;

// The sharding rule of ops that work on state: the op splits nothing, since ZeRO splits whole
// buffers.
ShardingRule whole(const Op& op, ValueSpan values);

}  // namespace tessera

// Functions that the rules of several ops share.
#pragma once

#include "ir/rule.h"

namespace tessera {

// Returns the cost of an op that consists of these GEMMs: they do all of its operations.
Cost product_cost(const Op& op, ValueSpan values, Work work, std::vector<ProductShape> products);

// Return the input that the first output may overwrite.
InPlace over_first(const Op& op);
InPlace over_last(const Op& op);
// If a loss also outputs the gradient of the logits, it overwrites the logits.
InPlace over_logits(const Op& op);

// The rule of all OnePassUpdates.
extern const OpRule kOnePassUpdateRule;

// The sharding rule of ops that work on state: the op splits nothing, since ZeRO splits whole
// buffers.
ShardingRule whole(const Op& op, ValueSpan values);

}  // namespace tessera

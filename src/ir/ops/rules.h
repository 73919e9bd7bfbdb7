// What the rules of several ops share.
#pragma once

#include "ir/rule.h"

namespace tessera {

// The cost of an op that makes products: they do all of its operations.
Cost product_cost(const Op& op, ValueSpan values, Work work, std::vector<ProductShape> products);

// Which input the first output may overwrite.
InPlace over_first(const Op& op);
InPlace over_last(const Op& op);
// The gradient of the logits, where a loss has it as an output, overwrites the logits.
InPlace over_logits(const Op& op);

// The rule of all OnePassUpdates.
extern const OpRule kOnePassUpdateRule;

// Of what works on state: nothing is split by the op, since ZeRO splits whole frames.
ShardingRule whole(const Op& op, ValueSpan values);

}  // namespace tessera

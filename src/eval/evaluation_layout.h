// How the ranks of an evaluation hold the model: a copy each, or together as in training.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"
#include "compile/layout.h"

namespace tessera::eval {

// Returns the layout of the run that wrote the checkpoint, from its header; one rank if the
// header has none (an imported model). The header is read as a tree, since another version of the
// program may have written it.
compile::Layout run_layout(const checkpoint::CheckpointReader& checkpoint);

// Returns the layout in which a model that was trained with `run` is evaluated: the same degrees of
// parallelism, without what only a backward needs. Layers are divided into stages by cost. Weights
// are divided among data-parallel ranks with ZeRO 3 only.
compile::Layout evaluation_layout(const compile::Layout& run);

// Returns the number of ranks of a layout.
int64_t ranks_of(const compile::Layout& layout);
// Returns true if no rank holds the whole model.
bool divides_model(const compile::Layout& layout);
// Returns "tensor=2,pipeline=2": the degrees above 1, or "1 rank".
std::string to_string(const compile::Layout& layout);

// Parses "tensor=2,pipeline=2": data, tensor, pipeline, context, expert, zero, zero_group. Throws
// Error for other text, with what is possible.
compile::Layout parse_layout(const std::string& text);

}  // namespace tessera::eval

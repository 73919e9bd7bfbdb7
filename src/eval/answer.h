// Answers that the model writes itself, for tasks of exact match.
#pragma once

#include "eval/evaluate.h"

namespace tessera {

// The most probable text after each example's context, until a stop text, the end-of-text token or
// `max_tokens`. Of a context that is too long the beginning is left out.
std::vector<ExampleScore> write_answers(CheckpointReader& checkpoint, const Tokenizer& tokenizer,
                                        const TaskSpec& spec, std::span<const Example> examples,
                                        const ModelOptions& options);

}  // namespace tessera

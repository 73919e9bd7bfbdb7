// How likely a model finds given continuations of given texts.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"
#include "eval/language_model.h"

namespace tessera {

struct Continuation {
  std::vector<int32_t> context, tokens;  // neither empty
};

struct Likelihood {
  double log = 0;       // sum of ln p over the continuation's tokens
  bool greedy = false;  // each of them is the most probable one
};

// The two encoded as one text and cut apart: white space at the end of the context goes to the
// continuation, whose first token often holds it. An empty context becomes the end-of-text token.
// Throws Error where there is none, or nothing to predict.
Continuation encode_continuation(const Tokenizer& tokenizer, std::string_view context,
                                 std::string_view text);

// One likelihood each. Rows of like length are computed together; the beginning of what is longer
// than the model's context is left out.
std::vector<Likelihood> likelihoods(CheckpointReader& checkpoint, std::span<const Continuation> all,
                                    const ModelOptions& options);

// What the largest of these takes: the model and its longest row.
int64_t likelihood_bytes(const ModelConfig& model, const ModelOptions& options);

}  // namespace tessera

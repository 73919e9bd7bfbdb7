// How likely a model finds given continuations of given texts.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"
#include "eval/language_model.h"
#include "eval/text_rules.h"

namespace tessera::eval {

struct Continuation {
  std::vector<int32_t> context, tokens;  // neither empty; an encoder reads the context
};

struct Likelihood {
  double log = 0;       // sum of ln p over the continuation's tokens
  bool greedy = false;  // each of them is the most probable one
};

// White space at the end of the context goes to the continuation, whose first token often holds it.
// For a decoder alone the two are encoded as one text and cut apart; beside an encoder each by
// itself, the context with what the rules put around it. An empty context becomes the token that
// begins texts, or the end-of-text token. Throws Error where there is none, or nothing to predict.
Continuation encode_continuation(const data::Tokenizer& tokenizer, const TextRules& rules,
                                 std::string_view context, std::string_view text);

// The length of a row of so many tokens: the next power of two, so that few programs do for all.
int64_t row_length(int64_t tokens, int64_t context, int64_t shortest = 32);

// One likelihood each. Rows of like length are computed together; the beginning of what is longer
// than the model's context is left out, of an encoder's text and of the continuation each.
std::vector<Likelihood> likelihoods(checkpoint::CheckpointReader& checkpoint,
                                    std::span<const Continuation> all, const ModelOptions& options);

// What the largest of these takes: the model and its longest row.
int64_t likelihood_bytes(const model::ModelConfig& model, const ModelOptions& options);

}  // namespace tessera::eval

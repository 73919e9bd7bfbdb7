// Computes the log-likelihoods that a model assigns to given continuations of given contexts.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"
#include "eval/adapted_model.h"
#include "eval/language_model.h"
#include "eval/text_rules.h"

namespace tessera::eval {

struct Continuation {
  std::vector<int32_t> context, tokens;  // neither is empty; an encoder reads the context
};

struct Likelihood {
  double log = 0;       // sum of ln p over the continuation's tokens
  bool greedy = false;  // true if each of these tokens is the most probable one
};

// Encodes a context and its continuation. White space at the end of the context is moved to the
// continuation, since tokenizers often join it with the text after it. In a decoder-only model, the
// two are encoded as one text and then divided. In a model with an encoder, each is encoded by
// itself, the context with the tokens that `rules` puts around a text. An empty context becomes the
// token that begins texts, or the end-of-text token. Throws Error if the tokenizer has neither, or
// if the continuation has no tokens.
Continuation encode_continuation(const data::Tokenizer& tokenizer, const SpecialTokenRules& rules,
                                 std::string_view context, std::string_view text);

// Returns the padded length of a row of `tokens` tokens: the next power of two, but at least
// `shortest` and at most `context`. So rows of all lengths share a few programs.
int64_t row_length(int64_t tokens, int64_t context, int64_t shortest = 32);

// Returns, for each of the adapters, one likelihood per continuation, on all ranks that hold the
// model. Rows of similar length are computed together. A row that is longer than the model's
// context is truncated at its beginning; in a model with an encoder, context and continuation are
// truncated separately.
std::vector<std::vector<Likelihood>> likelihoods(checkpoint::CheckpointReader& checkpoint,
                                                 const AdapterList& adapters,
                                                 std::span<const Continuation> all,
                                                 const ModelOptions& options);

// Returns the most memory that likelihoods() needs on this rank, in bytes: its part of the model
// with the longest rows.
int64_t likelihood_bytes(const model::ModelConfig& model, const ModelOptions& options);

}  // namespace tessera::eval

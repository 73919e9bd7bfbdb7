// Chooses the next token of a text: penalties and biases of logits, then the choice by
// kernels/sample.h, and log-probabilities. The order is that of vLLM:
//
//   repetition r, over prompt and output   z > 0 ? z / r : z · r    (Keskar et al. 2019)
//   frequency f, presence p, over output   z − count · f − (count > 0) · p    (OpenAI's API)
//   logit_bias                             z + bias
//   temperature, top_k, top_p, min_p       kernels::sample
//
// Log-probabilities are those of the model, before all of these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/sample.h"

namespace tessera::eval {

struct SamplingOptions {
  kernels::Sampling choice = {};
  double repetition_penalty = 1;
  double frequency_penalty = 0, presence_penalty = 0;
  std::vector<std::pair<int32_t, double>> logit_bias = {};  // id, and what is added to its logit
};

// Throws Error that names the option and its range if one is out of range: temperature in [0, 100],
// top_k >= 0, top_p in (0, 1], min_p in [0, 1], repetition_penalty in (0, 100], the other penalties
// in [−2, 2], biases in [−100, 100].
void validate(const SamplingOptions& options);

// Returns the uniform random number in [0, 1) for the token at `position` of sequence `sequence`.
// It depends on nothing else but the seed, so batching does not change a text.
double sampling_uniform(uint64_t seed, uint64_t sequence, uint64_t position);

struct TokenProbability {
  int32_t token = 0;
  double log_probability = 0;
};

// Returns ln softmax(logits)[token], computed in double.
double log_probability(std::span<const float> logits, int32_t token);
// Returns the `count` most probable tokens, in descending order; the first of equals comes first.
std::vector<TokenProbability> most_probable(std::span<const float> logits, int64_t count);

// Chooses the tokens of one text.
class Sampler {
 public:
  // Ids from `vocabulary` on are never chosen. REQUIRES: validate(options) passes, vocabulary > 0.
  Sampler(SamplingOptions options, int64_t vocabulary);

  // Adds tokens of the prompt, to which the repetition penalty applies.
  void read(std::span<const int32_t> prompt);
  // Returns the token that `u` in [0, 1) selects, and counts it as output. Ids in `forbidden` are
  // not chosen. Throws NumericError if a logit is not finite.
  int32_t choose(std::span<const float> logits, double u, std::span<const int32_t> forbidden = {});

 private:
  void apply_penalties(std::span<float> z) const;

  struct Uses {
    int64_t output = 0;  // times in the output; 0: only in the prompt
  };
  SamplingOptions options_;
  int64_t vocabulary_;
  std::unordered_map<int32_t, Uses> seen_;
  std::vector<float> adjusted_;
  std::vector<std::byte> workspace_;
};

}  // namespace tessera::eval

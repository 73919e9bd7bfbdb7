// Adjusts the logits of the tokens that a text contains, and chooses the next one. Only the tokens
// that were seen are visited, so penalties cost nothing in the size of the vocabulary; the logits
// are copied only if something adjusts them.
#include "eval/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/philox.h"
#include "checkpoint/finite.h"

namespace tessera::eval {
namespace {

void require_in(const char* name, double x, double least, double most, const char* advice) {
  if (!(x >= least && x <= most))
    throw Error("{} = {}, expected {} to {}. {}", name, x, least, most, advice);
}

}  // namespace

void validate(const SamplingOptions& o) {
  const kernels::Sampling& s = o.choice;
  require_in("temperature", s.temperature, 0, 100,
             "0 selects the most probable token, 1 samples from the model's own distribution.");
  if (s.top_k < 0)
    throw Error("top_k = {}, expected 0 or more. 0 keeps all tokens, 1 only the most probable one.",
                s.top_k);
  if (!(s.top_p > 0 && s.top_p <= 1))
    throw Error("top_p = {}, expected a value in (0, 1]. 1 keeps all tokens.", s.top_p);
  require_in("min_p", s.min_p, 0, 1, "0 keeps all tokens.");
  if (!(o.repetition_penalty > 0 && o.repetition_penalty <= 100))
    throw Error("repetition_penalty = {}, expected a value in (0, 100]. 1: none.",
                o.repetition_penalty);
  require_in("frequency_penalty", o.frequency_penalty, -2, 2, "0: none.");
  require_in("presence_penalty", o.presence_penalty, -2, 2, "0: none.");
  for (const auto& [token, bias] : o.logit_bias)
    require_in("logit_bias", bias, -100, 100, "It is added to the logit of its token.");
}

double sampling_uniform(uint64_t seed, uint64_t sequence, uint64_t position) {
  const PhiloxBlock b = Philox{hash_name("sampling", seed)}.block(position, sequence);
  // 53 random bits, as many as a double's fraction has.
  const uint64_t word = (uint64_t{b[0]} << 32) | b[1];
  return static_cast<double>(word >> 11) * 0x1p-53;
}

namespace {

// Returns ln of the sum of e^z, relative to the largest logit, so nothing overflows.
double log_sum(std::span<const float> logits) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float z : logits) sum += std::exp(z - most);
  return most + std::log(sum);
}

}  // namespace

double log_probability(std::span<const float> logits, int32_t token) {
  return logits[static_cast<size_t>(token)] - log_sum(logits);
}

std::vector<TokenProbability> most_probable(std::span<const float> logits, int64_t count) {
  std::vector<int32_t> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  const auto kept = std::min<int64_t>(count, std::ssize(order));
  std::partial_sort(order.begin(), order.begin() + kept, order.end(), [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  const double total = kept > 0 ? log_sum(logits) : 0;
  std::vector<TokenProbability> out;
  for (int64_t i = 0; i < kept; ++i) out.push_back({order[i], logits[order[i]] - total});
  return out;
}

Sampler::Sampler(SamplingOptions options, int64_t vocabulary)
    : options_(std::move(options)), vocabulary_(vocabulary) {
  CHECK(vocabulary_ > 0, "the vocabulary has {} tokens", vocabulary_);
  std::erase_if(options_.logit_bias,
                [&](const auto& b) { return b.first < 0 || b.first >= vocabulary_; });
}

void Sampler::read(std::span<const int32_t> prompt) {
  if (options_.repetition_penalty == 1) return;
  for (const int32_t id : prompt)
    if (id >= 0 && id < vocabulary_) seen_.try_emplace(id);
}

void Sampler::apply_penalties(std::span<float> z) const {
  for (const auto& [token, uses] : seen_) {
    double x = z[static_cast<size_t>(token)];
    x = x > 0 ? x / options_.repetition_penalty : x * options_.repetition_penalty;
    if (uses.output > 0)
      x -=
          static_cast<double>(uses.output) * options_.frequency_penalty + options_.presence_penalty;
    z[static_cast<size_t>(token)] = static_cast<float>(x);
  }
  for (const auto& [token, bias] : options_.logit_bias)
    z[static_cast<size_t>(token)] += static_cast<float>(bias);
}

int32_t Sampler::choose(std::span<const float> logits, double u,
                        std::span<const int32_t> forbidden) {
  // Ids outside the vocabulary are padding of the embedding table and have no text.
  std::span<const float> z = logits.first(std::min<size_t>(logits.size(), vocabulary_));
  if (checkpoint::find_non_finite(std::as_bytes(z).data(), DType::kF32, std::ssize(z)))
    throw NumericError(
        "the logits are not finite, although all weights are. Use another checkpoint.");
  if (!seen_.empty() || !options_.logit_bias.empty() || !forbidden.empty()) {
    adjusted_.assign(z.begin(), z.end());
    apply_penalties(adjusted_);
    for (const int32_t id : forbidden)
      if (id >= 0 && id < std::ssize(adjusted_))
        adjusted_[id] = std::numeric_limits<float>::lowest();
    z = adjusted_;
  }
  workspace_.resize(static_cast<size_t>(kernels::sample_workspace_bytes(std::ssize(z))));
  const TensorView view{const_cast<float*>(z.data()), DType::kF32, {std::ssize(z)}};
  const int32_t token = kernels::sample(view, options_.choice, u, workspace_.data());
  if (options_.repetition_penalty != 1 || options_.frequency_penalty != 0 ||
      options_.presence_penalty != 0)
    ++seen_[token].output;
  return token;
}

}  // namespace tessera::eval

// Autoregressive generation. The random number of a token depends only on seed and position, so a
// text can be reproduced from any prefix.
#include "eval/generate.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/philox.h"
#include "checkpoint/finite.h"

namespace tessera::eval {

std::vector<int32_t> generate(Decoder& decoder, std::span<const int32_t> prompt,
                              const GenerateOptions& options,
                              const std::function<void(int32_t)>& each) {
  validate(options.sampling);
  const auto length = std::ssize(prompt);
  if (prompt.empty()) throw Error("the prompt is empty. Give a text to continue.");
  if (options.max_tokens < 0)
    throw Error("max_tokens = {}, expected 0 or more.", options.max_tokens);
  const int64_t room = decoder.context() - length;
  if (options.max_tokens > room)
    throw Error("a prompt of {} token{} and {} new tokens exceed the model's context of {}. {}",
                length, length == 1 ? "" : "s", options.max_tokens, decoder.context(),
                room > 0 ? fmt::format("Shorten the prompt or ask for at most {} tokens.", room)
                         : "Shorten the prompt.");
  std::vector<int32_t> out;
  std::vector<std::byte> workspace;
  std::span<float> logits = decoder.read(prompt);
  while (std::ssize(out) < options.max_tokens) {
    const uint64_t position = decoder.position();
    // Ids outside the vocabulary are padding of the embedding table and have no text.
    auto vocabulary = std::ssize(logits);
    if (options.vocabulary > 0) vocabulary = std::min(vocabulary, options.vocabulary);
    if (checkpoint::find_non_finite(std::as_bytes(logits).data(), DType::kF32, vocabulary))
      throw NumericError(
          "the logits after {} tokens are not finite, although all weights are. Use another "
          "checkpoint.",
          length + std::ssize(out));
    workspace.resize(kernels::sample_workspace_bytes(vocabulary));
    const int32_t token =
        kernels::sample({logits.data(), DType::kF32, {vocabulary}}, options.sampling,
                        sampling_uniform(options.seed, 0, position), workspace.data());
    if (std::ranges::find(options.stops, token) != options.stops.end()) break;
    out.push_back(token);
    if (each) each(token);
    if (options.enough && options.enough(out)) break;
    // The logits after the last token are not needed.
    if (std::ssize(out) < options.max_tokens) logits = decoder.read({&token, 1});
  }
  return out;
}

void validate(const kernels::Sampling& s) {
  if (!(s.temperature >= 0) || !std::isfinite(s.temperature)) {
    throw Error(
        "temperature = {}, expected a finite value >= 0. 0 selects the most probable token, 1 "
        "samples from the model's own distribution.",
        s.temperature);
  }
  if (s.top_k < 0)
    throw Error("top_k = {}, expected 0 or more. 0 keeps all tokens, 1 only the most probable one.",
                s.top_k);
  if (!(s.top_p > 0 && s.top_p <= 1)) {
    throw Error("top_p = {}, expected a value in (0, 1]. 1 keeps all tokens.", s.top_p);
  }
}

double sampling_uniform(uint64_t seed, uint64_t sequence, uint64_t position) {
  const PhiloxBlock b = Philox{hash_name("sampling", seed)}.block(position, sequence);
  // 53 random bits, as many as a double's fraction has.
  const uint64_t word = (uint64_t{b[0]} << 32) | b[1];
  return static_cast<double>(word >> 11) * 0x1p-53;
}

}  // namespace tessera::eval

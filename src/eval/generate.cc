// Autoregressive generation. The random number of a token depends only on seed and position, so a
// text can be reproduced from any prefix.
#include "eval/generate.h"

#include <algorithm>

#include "base/error.h"

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
  std::span<float> logits = decoder.read(prompt);
  Sampler sampler(options.sampling,
                  options.vocabulary > 0 ? options.vocabulary : std::ssize(logits));
  sampler.read(prompt);
  while (std::ssize(out) < options.max_tokens) {
    const uint64_t position = decoder.position();
    const int32_t token = sampler.choose(logits, sampling_uniform(options.seed, 0, position));
    if (std::ranges::find(options.stops, token) != options.stops.end()) break;
    out.push_back(token);
    if (each) each(token);
    if (options.enough && options.enough(out)) break;
    // The logits after the last token are not needed.
    if (std::ssize(out) < options.max_tokens) logits = decoder.read({&token, 1});
  }
  return out;
}

}  // namespace tessera::eval

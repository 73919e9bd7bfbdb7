// Generates answers greedily and extracts the part that is compared. A token can complete a stop
// text together with earlier ones, so the text is searched after every token.
#include "eval/evaluate.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "eval/generate.h"
#include "eval/likelihood.h"
#include "eval/task.h"
#include "eval/text_rules.h"

namespace tessera::eval {
namespace {

// Returns the offset of the first occurrence of any stop text; npos: there is none.
size_t stop_of(const std::string& text, const std::vector<std::string>& stops) {
  size_t at = text.npos;
  for (const std::string& s : stops) at = std::min(at, text.find(s));
  return at;
}

std::string without(std::string text, const std::vector<std::string>& ignored) {
  for (const std::string& word : ignored) {
    if (word.empty()) continue;
    // Repeated until none is left: a removal may join the parts of another occurrence.
    for (size_t at; (at = text.find(word)) != text.npos;) text.erase(at, word.size());
  }
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// Returns the tokens of an example that the model reads: the last `room` ones of its context.
std::vector<int32_t> read_of(const Example& e, const SpecialTokenRules& rules,
                             const data::Tokenizer& tokenizer, int64_t room) {
  std::string context = e.options[0].context;
  context.erase(context.find_last_not_of(" \t\r\n") + 1);
  std::vector<int32_t> ids = encode_text(rules, tokenizer, context);
  if (ids.empty() && rules.alone) ids.push_back(*rules.alone);
  const auto excess = std::ssize(ids) - room;
  if (excess > 0) ids.erase(ids.begin(), ids.begin() + excess);
  return ids;
}

}  // namespace

std::string extract_answer(const TaskSpec& spec, const std::string& written) {
  if (spec.extract.empty()) return without(written, spec.ignore);
  return without(AnswerPattern(spec.extract).find(written), spec.ignore);
}

std::vector<ExampleScore> write_answers(checkpoint::CheckpointReader& checkpoint,
                                        const data::Tokenizer& tokenizer, const TaskSpec& spec,
                                        std::span<const Example> examples,
                                        const ModelOptions& options) {
  const SpecialTokenRules rules = text_rules(checkpoint, tokenizer);
  const int64_t context = model_of(checkpoint).context;
  if (spec.max_tokens >= context)
    throw Error(
        "max_tokens = {} of the task leaves no room for the question in the model's context of {}. "
        "Lower max_tokens in the task file, or evaluate a model with a longer context.",
        spec.max_tokens, context);
  GenerateOptions o;
  o.sampling.temperature = 0;
  o.max_tokens = spec.max_tokens;
  o.vocabulary = rules.vocabulary;
  o.stops = rules.stops;
  o.enough = [&](std::span<const int32_t> ids) {
    return stop_of(written_text(tokenizer, ids), spec.stop) != std::string::npos;
  };
  std::vector<std::vector<int32_t>> read;
  for (const Example& e : examples)
    read.push_back(
        read_of(e, rules, tokenizer, rules.has_encoder ? context : context - o.max_tokens));
  // A decoder's program is compiled for the length of its source, so examples of the same length
  // are processed together, with one decoder.
  const auto length = [&](size_t i) {
    return rules.has_encoder ? row_length(read[i].size(), context) : 0;
  };
  std::vector<size_t> order(examples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, length);
  std::optional<Decoder> decoder;
  int64_t last = -1;
  std::vector<ExampleScore> out(examples.size());
  for (const size_t i : order) {
    if (length(i) != last) {
      last = length(i);
      decoder.emplace(checkpoint, options, std::vector<int32_t>(last, 0));
    }
    decoder->forget(rules.has_encoder ? read[i] : std::vector<int32_t>());
    const std::vector<int32_t> prompt = rules.has_encoder ? std::vector<int32_t>{0} : read[i];
    const std::string text = written_text(tokenizer, generate(*decoder, prompt, o));
    out[i].line = examples[i].line;
    out[i].written = text.substr(0, stop_of(text, spec.stop));
    out[i].extracted = extract_answer(spec, out[i].written);
  }
  return out;
}

}  // namespace tessera::eval

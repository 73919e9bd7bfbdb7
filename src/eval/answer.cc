#include "eval/answer.h"

#include <algorithm>
#include <regex>

#include "base/error.h"
#include "eval/generate.h"

namespace tessera {
namespace {

// Where the first of the stop texts begins.
size_t stop_of(const std::string& text, const std::vector<std::string>& stops) {
  size_t at = text.npos;
  for (const std::string& s : stops) at = std::min(at, text.find(s));
  return at;
}

std::string without(std::string text, const std::vector<std::string>& ignored) {
  for (const std::string& word : ignored) {
    if (word.empty()) continue;
    for (size_t at; (at = text.find(word)) != text.npos;) text.erase(at, word.size());
  }
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

}  // namespace

std::string extract_answer(const TaskSpec& spec, const std::string& written) {
  if (spec.extract.empty()) return without(written, spec.ignore);
  std::smatch m;
  if (!std::regex_search(written, m, std::regex(spec.extract))) return "";
  return without(m.size() > 1 ? m[1].str() : m[0].str(), spec.ignore);
}

std::vector<ExampleScore> write_answers(CheckpointReader& checkpoint, const Tokenizer& tokenizer,
                                        const TaskSpec& spec, std::span<const Example> examples,
                                        const ModelOptions& options) {
  Decoder decoder(checkpoint, options);
  if (spec.max_tokens >= decoder.context())
    throw Error("max_tokens is {}, but the model's context is {}: nothing could be read",
                spec.max_tokens, decoder.context());
  GenerateOptions o;
  o.sampling.temperature = 0;
  o.max_tokens = spec.max_tokens;
  o.vocabulary = tokenizer.vocabulary_size();
  o.stop = tokenizer.end_of_text();
  o.enough = [&](std::span<const int32_t> ids) {
    return stop_of(tokenizer.decode(ids), spec.stop) != std::string::npos;
  };
  std::vector<ExampleScore> out;
  for (const Example& e : examples) {
    std::string context = e.options[0].context;
    context.erase(context.find_last_not_of(" \t\r\n") + 1);
    std::vector<int32_t> ids = tokenizer.encode(context);
    const auto room = static_cast<size_t>(decoder.context() - spec.max_tokens);
    if (ids.size() > room) ids.erase(ids.begin(), ids.end() - static_cast<int64_t>(room));
    decoder.forget();
    const std::string text = tokenizer.decode(generate(decoder, ids, o));
    ExampleScore& s = out.emplace_back();
    s.line = e.line;
    s.written = text.substr(0, stop_of(text, spec.stop));
    s.extracted = extract_answer(spec, s.written);
  }
  return out;
}

}  // namespace tessera

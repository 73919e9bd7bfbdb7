// Generates answers greedily and extracts the part that is compared. A token can complete a stop
// text together with earlier ones, so the text is searched after every token.
#include "eval/evaluate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "eval/adapted_model.h"
#include "eval/batch_decoder.h"
#include "eval/generate.h"
#include "eval/likelihood.h"
#include "eval/model_programs.h"
#include "eval/task.h"
#include "eval/text_batch.h"
#include "eval/text_rules.h"

namespace tessera::eval {
namespace {

// Returns the offset of the first occurrence of any stop text; npos: there is none.
size_t stop_of(const std::string& text, const std::vector<std::string>& stops) {
  size_t at = text.npos;
  for (const std::string& s : stops) at = std::min(at, text.find(s));
  return at;
}

// Returns an answer as it is compared: without what the task ignores, and without white space at
// both ends.
std::string compared(std::string text, const TaskSpec& spec) {
  for (const std::string& word : spec.ignore) {
    if (word.empty()) continue;
    // Repeated until none is left: a removal may join the parts of another occurrence.
    for (size_t at; (at = text.find(word)) != text.npos;) text.erase(at, word.size());
  }
  for (const std::string& pattern : spec.ignore_patterns) AnswerPattern(pattern).remove_from(text);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// Returns the tokens of an example that the model reads: the last `room` ones of its context.
std::vector<int32_t> read_of(const Example& e, const SpecialTokenRules& rules,
                             const data::Tokenizer& tokenizer, int64_t room) {
  // Tokenizers join a space with the text after it, so the model generates it. Other white space,
  // such as the line break after the role in a chat, is part of the prompt.
  std::string context = e.options[0].context;
  context.erase(context.find_last_not_of(' ') + 1);
  std::vector<int32_t> ids = encode_text(rules, tokenizer, context);
  if (ids.empty() && rules.alone) ids.push_back(*rules.alone);
  const auto excess = std::ssize(ids) - room;
  if (excess > 0) ids.erase(ids.begin(), ids.begin() + excess);
  return ids;
}

}  // namespace

std::string extract_answer(const TaskSpec& spec, const std::string& written) {
  if (spec.extract.empty()) return compared(written, spec);
  return compared(AnswerPattern(spec.extract).find(written), spec);
}

std::string extract_last_answer(const TaskSpec& spec, const std::string& written) {
  return compared(AnswerPattern(spec.extract_last).find_last(written), spec);
}

namespace {

// The input of a generation: one text per example.
struct Writing {
  const SpecialTokenRules& rules;
  const TaskSpec& spec;
  std::vector<std::vector<int32_t>> read;  // tokens that the model reads
  std::function<bool(std::span<const int32_t>)> enough;
  int64_t context;
  std::function<void(int64_t)> on_texts;  // receives the number of texts that were completed

  // The length of the encoder's input.
  int64_t source_length(size_t i) const {
    return rules.has_encoder ? row_length(std::ssize(read[i]), context) : 0;
  }
  std::vector<int32_t> prompt(size_t i) const {
    return rules.has_encoder ? std::vector<int32_t>{0} : read[i];
  }
  // A program is compiled for the length of its source, so examples of the same length follow each
  // other.
  std::vector<size_t> order() const {
    std::vector<size_t> order(read.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t i) { return source_length(i); });
    return order;
  }
  // Calls f(i, length) with the indices of the examples of each length of the source.
  template <class F>
  void for_each_length(F&& f) const {
    const std::vector<size_t> all = order();
    for (size_t first = 0, end = 0; first < all.size(); first = end) {
      const int64_t length = source_length(all[first]);
      while (end < all.size() && source_length(all[end]) == length) ++end;
      f(std::span(all).subspan(first, end - first), length);
    }
  }
};

// The tokens of each example, with each of several adapters.
using Written = std::vector<std::vector<std::vector<int32_t>>>;

Written write_with_cache(checkpoint::CheckpointReader& checkpoint, const AdapterList& adapters,
                         const Writing& w, const ModelOptions& options) {
  GenerateOptions o;
  o.sampling.choice.temperature = 0;
  o.max_tokens = w.spec.max_tokens;
  o.vocabulary = w.rules.vocabulary;
  o.stops = w.rules.stops;
  o.enough = w.enough;
  Written out(adapters.size(), std::vector<std::vector<int32_t>>(w.read.size()));
  w.for_each_length([&](std::span<const size_t> which, int64_t source) {
    AdaptedModel<Decoder> model;
    for (size_t a = 0; a < adapters.size(); ++a) {
      Decoder& decoder = model.with(checkpoint, adapters[a], [&] {
        return std::make_unique<Decoder>(checkpoint, options, std::vector<int32_t>(source, 0));
      });
      for (const size_t i : which) {
        decoder.forget(w.rules.has_encoder ? w.read[i] : std::vector<int32_t>());
        out[a][i] = generate(decoder, w.prompt(i), o);
        w.on_texts(1);
      }
    }
  });
  return out;
}

// Returns the most probable id below `vocabulary` at each row's position, the first of equals. The
// ids may be divided among ranks, which combine their maxima and then the smallest ids.
std::vector<int32_t> most_probable(const LogitsPart& part, std::span<const int64_t> positions,
                                   int64_t vocabulary, comm::World& world) {
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  std::vector<double> top(positions.size(), kLowest), ids(positions.size(), kLowest);
  std::vector<double> own = top;
  for (size_t r = 0; r < positions.size(); ++r) {
    std::span<const float> logits = part.at(static_cast<int64_t>(r), positions[r]);
    logits = logits.first(std::clamp<int64_t>(vocabulary - part.first_id, 0, std::ssize(logits)));
    if (logits.empty()) continue;
    const auto best = std::max_element(logits.begin(), logits.end());
    own[r] = top[r] = *best;
    ids[r] = -static_cast<double>(part.first_id + (best - logits.begin()));  // the smallest id wins
  }
  world.all_reduce(top, comm::Reduction::kMax);
  for (size_t r = 0; r < positions.size(); ++r)
    if (own[r] != top[r]) ids[r] = kLowest;
  world.all_reduce(ids, comm::Reduction::kMax);
  std::vector<int32_t> out;
  for (size_t r = 0; r < positions.size(); ++r) {
    if (!std::isfinite(top[r])) throw NumericError("a logit is not finite. Evaluate in fp32.");
    out.push_back(static_cast<int32_t>(-ids[r]));
  }
  return out;
}

// Returns the request of a text, whose tokens are added to `out`.
TextRequest request_of(const Writing& w, size_t i, std::vector<int32_t>& out, bool& failed) {
  TextRequest r;
  r.prompt = w.read[i];
  r.sampling.choice.temperature = 0;
  r.max_tokens = w.spec.max_tokens;
  r.stops = w.rules.stops;
  r.each = [&w, &out](const NewToken& t) {
    out.push_back(t.token);
    return !w.enough(out);
  };
  r.end = [&w, &failed](Ending how) {
    failed = failed || how == Ending::kError;
    w.on_texts(1);
  };
  return r;
}

// Generates the texts of a decoder-only model, as many at once as there are slots.
void write_in_slots(BatchDecoder& decoder, const Writing& w,
                    std::vector<std::vector<int32_t>>& out) {
  TextBatch batch(decoder, w.rules.vocabulary);
  bool failed = false;
  for (size_t begun = 0; begun < w.read.size() || batch.active() > 0;) {
    for (; begun < w.read.size() && batch.has_room(); ++begun) {
      TextRequest r = request_of(w, begun, out[begun], failed);
      validate(r, decoder);
      batch.add(std::move(r));
    }
    batch.step();
    if (failed) throw NumericError("a logit is not finite. Evaluate in fp32.");
  }
}

// Returns the slots for texts of at most `context` tokens: on each data-parallel rank those of a
// number of positions, which bounds the memory of the cache, but at least one.
SlotOptions slots_for(const compile::Layout& layout, int64_t texts, int64_t context) {
  constexpr int64_t kPositions = 2048, kMostTexts = 256;
  const int64_t data = layout.data * layout.context;  // no row of a cache is divided
  const int64_t slots = std::max<int64_t>(1, kPositions / context) * data;
  return {.slots = std::clamp<int64_t>(texts, 1, std::min(slots, kMostTexts)), .context = context};
}

// Generates with a decoder-only model that ranks hold together.
Written write_on_ranks(checkpoint::CheckpointReader& checkpoint, const AdapterList& adapters,
                       const Writing& w, const ModelOptions& options) {
  int64_t longest = 0;
  for (const std::vector<int32_t>& ids : w.read) longest = std::max(longest, std::ssize(ids));
  const SlotOptions slots =
      slots_for(options.layout, std::ssize(w.read),
                context_for(checkpoint, std::max<int64_t>(1, longest + w.spec.max_tokens)));
  Written out(adapters.size(), std::vector<std::vector<int32_t>>(w.read.size()));
  AdaptedModel<BatchDecoder> model;
  for (size_t a = 0; a < adapters.size(); ++a)
    write_in_slots(
        model.with(checkpoint, adapters[a],
                   [&] { return std::make_unique<BatchDecoder>(checkpoint, options, slots); }),
        w, out[a]);
  return out;
}

// Generates with an encoder-decoder model on ranks that hold the model together. There is no cache:
// each token computes its row again, so this is slower by about the length of the text.
void write_batch(LogitsModel& model, int64_t length, int64_t source_length, const Writing& w,
                 std::span<const size_t> which, comm::World& world,
                 std::vector<std::vector<int32_t>>& out) {
  const int64_t rows = model.rows();
  std::vector<int32_t> tokens(rows * length, 0), sources(rows * source_length, 0);
  std::vector<int64_t> positions(rows, 0);
  std::vector<bool> ended(rows, true);
  for (size_t r = 0; r < which.size(); ++r) {
    const std::vector<int32_t> prompt = w.prompt(which[r]);
    std::ranges::copy(prompt, tokens.begin() + static_cast<int64_t>(r) * length);
    if (source_length > 0)
      std::ranges::copy(w.read[which[r]],
                        sources.begin() + static_cast<int64_t>(r) * source_length);
    positions[r] = std::ssize(prompt) - 1;
    ended[r] = false;
  }
  for (int64_t t = 0; t < w.spec.max_tokens && std::ranges::count(ended, false) > 0; ++t) {
    model.run(tokens, sources);
    const std::vector<int32_t> next =
        most_probable(model.part(), positions, w.rules.vocabulary, world);
    for (size_t r = 0; r < which.size(); ++r) {
      if (ended[r]) continue;
      std::vector<int32_t>& text = out[which[r]];
      if (std::ranges::count(w.rules.stops, next[r]) > 0) {
        ended[r] = true;
        continue;
      }
      text.push_back(next[r]);
      ended[r] = w.enough(text) || positions[r] + 1 >= length;
      if (!ended[r]) tokens[static_cast<int64_t>(r) * length + ++positions[r]] = next[r];
    }
  }
}

Written write_with_encoder(checkpoint::CheckpointReader& checkpoint, const AdapterList& adapters,
                           const Writing& w, const ModelOptions& options) {
  Written out(adapters.size(), std::vector<std::vector<int32_t>>(w.read.size()));
  w.for_each_length([&](std::span<const size_t> which, int64_t source) {
    int64_t longest = 0;
    for (const size_t i : which) longest = std::max(longest, std::ssize(w.prompt(i)));
    const int64_t length = row_length(longest + w.spec.max_tokens, w.context);
    AdaptedModel<LogitsModel> model;
    for (size_t a = 0; a < adapters.size(); ++a) {
      LogitsModel& logits = model.with(checkpoint, adapters[a], [&] {
        return std::make_unique<LogitsModel>(checkpoint, rows_at_once(std::max(length, source)),
                                             length, options, source);
      });
      for (size_t at = 0; at < which.size(); at += logits.rows()) {
        const size_t count = std::min<size_t>(logits.rows(), which.size() - at);
        write_batch(logits, length, source, w, which.subspan(at, count), *options.world, out[a]);
        w.on_texts(static_cast<int64_t>(count));
      }
    }
  });
  return out;
}

// Returns the scores of the texts that were generated with one adapter.
std::vector<ExampleScore> scores_of_texts(const data::Tokenizer& tokenizer, const TaskSpec& spec,
                                          std::span<const Example> examples,
                                          const std::vector<std::vector<int32_t>>& ids) {
  std::vector<ExampleScore> out(examples.size());
  for (size_t i = 0; i < examples.size(); ++i) {
    const std::string text = written_text(tokenizer, ids[i]);
    out[i].line = examples[i].line;
    out[i].written = text.substr(0, stop_of(text, spec.stop));
    out[i].extracted = extract_answer(spec, out[i].written);
    if (!spec.extract_last.empty())
      out[i].extracted_last = extract_last_answer(spec, out[i].written);
  }
  return out;
}

}  // namespace

ScoresOfAdapters write_answers(checkpoint::CheckpointReader& checkpoint,
                               const AdapterList& adapters, const data::Tokenizer& tokenizer,
                               const TaskSpec& spec, std::span<const Example> examples,
                               const ModelOptions& options) {
  const SpecialTokenRules rules = text_rules(checkpoint, tokenizer);
  const int64_t context = within_first_context(model_of(checkpoint)).context;
  if (spec.max_tokens >= context)
    throw Error(
        "max_tokens = {} of the task leaves no room for the question in the model's context of {}. "
        "Lower max_tokens in the task file, or evaluate a model with a longer context.",
        spec.max_tokens, context);
  Writing w = {rules, spec, {}, {}, context, {}};
  w.on_texts = counter(options.on_progress, std::ssize(adapters) * std::ssize(examples));
  w.enough = [&](std::span<const int32_t> ids) {
    return stop_of(written_text(tokenizer, ids), spec.stop) != std::string::npos;
  };
  for (const Example& e : examples)
    w.read.push_back(
        read_of(e, rules, tokenizer, rules.has_encoder ? context : context - spec.max_tokens));
  const auto write = options.world == nullptr ? write_with_cache
                     : rules.has_encoder      ? write_with_encoder
                                              : write_on_ranks;
  const Written all = write(checkpoint, adapters, w, options);
  ScoresOfAdapters out;
  for (const std::vector<std::vector<int32_t>>& ids : all)
    out.push_back(scores_of_texts(tokenizer, spec, examples, ids));
  return out;
}

int64_t answer_bytes(const model::ModelConfig& model, const ModelOptions& options) {
  if (model.encoder_layers > 0) return 0;
  if (options.world == nullptr) return decoder_bytes(model, options, {.slots = 1});
  constexpr int64_t kManyTexts = 1 << 20;
  return decoder_bytes(model, options,
                       slots_for(options.layout, kManyTexts, within_first_context(model).context));
}

}  // namespace tessera::eval

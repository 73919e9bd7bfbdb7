// Continuous batching over slots. Each step() reads one chunk of some prompts, then decodes all
// texts whose prompts are complete, by groups of slots.
//
// A slot keeps its cache after its text has ended. A new text gets the free slot whose tokens
// share the longest beginning with its prompt, and reads only the rest: the next turn of a chat
// does not read the earlier ones again. A prompt that only begins like that of another conversation
// (the same system message) uses an empty slot while there is one, so that both stay in the cache.
#include "eval/text_batch.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tessera::eval {
namespace {

constexpr int64_t kChunksPerStep = 4;

int64_t common_length(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

void validate(const TextRequest& r, const BatchDecoder& decoder) {
  validate(r.sampling);
  if (r.prompt.empty()) throw Error("the prompt is empty. Give a text to continue.");
  for (const int32_t id : r.prompt)
    if (id < 0 || id >= decoder.vocabulary())
      throw Error("token id {} is not in the model's vocabulary of {}.", id, decoder.vocabulary());
  if (r.max_tokens < 0) throw Error("max_tokens = {}, expected 0 or more.", r.max_tokens);
  const auto length = std::ssize(r.prompt);
  const int64_t room = decoder.context() - length;
  if (r.max_tokens > room)
    throw Error("a prompt of {} token{} and {} new tokens exceed the context of {}. {}", length,
                length == 1 ? "" : "s", r.max_tokens, decoder.context(),
                room > 0 ? fmt::format("Shorten the prompt or ask for at most {} tokens.", room)
                         : "Shorten the prompt.");
}

TextBatch::TextBatch(BatchDecoder& decoder, int64_t vocabulary)
    : decoder_(decoder),
      vocabulary_(vocabulary > 0 ? std::min(vocabulary, decoder.vocabulary())
                                 : decoder.vocabulary()),
      slots_(static_cast<size_t>(decoder.slots())) {}

int64_t TextBatch::active() const {
  return std::ranges::count_if(slots_, [](const Slot& s) { return s.used; });
}

// Returns the free slot that shares the most tokens with the prompt; among equals, the one that was
// used least recently. If the prompt does not continue that slot's text, an empty slot is better.
int64_t TextBatch::best_slot(std::span<const int32_t> prompt) const {
  int64_t best = -1, empty = -1, longest = -1;
  for (int64_t i = 0; i < std::ssize(slots_); ++i) {
    const Slot& s = slots_[i];
    if (s.used) continue;
    if (empty < 0 && s.tokens.empty()) empty = i;
    const int64_t length = common_length(s.tokens, prompt);
    if (length > longest || (length == longest && s.last_used < slots_[best].last_used))
      best = i, longest = length;
  }
  // The next turn has the whole prompt of the turn before it, except that a tokenizer may join the
  // prompt's last token with the beginning of the answer.
  const bool continues = longest > 0 && longest >= slots_[best].prompt_tokens - 1;
  return continues || empty < 0 ? best : empty;
}

int64_t TextBatch::add(TextRequest request) {
  const int64_t at = best_slot(request.prompt);
  CHECK(at >= 0, "a batch of {} texts is full", slots_.size());
  Slot& s = slots_[at];
  // The last token is read in any case, since its logits choose the first token of the output.
  int64_t kept = std::min(common_length(s.tokens, request.prompt), std::ssize(request.prompt) - 1);
  if (request.prompt_probabilities) kept = 0;
  s.used = true;
  s.tokens.resize(static_cast<size_t>(kept));
  // Where the cache was used for padding, it lacks the last token of its text.
  kept = std::min(kept, decoder_.position(at));
  s.tokens.resize(static_cast<size_t>(kept));
  decoder_.rewind(at, kept);
  s.read = kept;
  s.written = 0;
  s.sampler.clear();
  s.sampler.emplace_back(request.sampling, vocabulary_);
  s.sampler[0].read(request.prompt);
  s.request = std::move(request);
  s.prompt_tokens = std::ssize(s.request.prompt);
  counts_.reused_tokens += kept;
  if (s.request.max_tokens == 0 && !s.request.prompt_probabilities) end(at, Ending::kLength);
  return at;
}

void TextBatch::end(int64_t slot, Ending how) {
  Slot& s = slots_[slot];
  s.used = false;
  s.last_used = ++clock_;
  s.sampler.clear();
  const auto tell = std::exchange(s.request.end, nullptr);
  s.request = {};
  if (tell) tell(how);
}

void TextBatch::cancel(int64_t slot) {
  if (slots_[slot].used) end(slot, Ending::kCancelled);
}

// Reports the tokens of the prompt from `first` on, whose successors have these logits.
void TextBatch::report_prompt(Slot& s, std::span<const float> logits, int64_t first) {
  const auto width = static_cast<size_t>(decoder_.vocabulary());
  const auto rows = static_cast<int64_t>(logits.size() / width);
  if (first == 0) s.request.each({.token = s.request.prompt[0], .in_prompt = true});
  for (int64_t i = 0; i < rows && first + i + 1 < std::ssize(s.request.prompt); ++i) {
    const std::span<const float> row = logits.subspan(static_cast<size_t>(i) * width, vocabulary_);
    NewToken t{.token = s.request.prompt[first + i + 1], .index = first + i + 1, .in_prompt = true};
    if (t.token < vocabulary_) t.log_probability = log_probability(row, t.token);
    t.top = most_probable(row, s.request.top_probabilities);
    s.request.each(t);
  }
}

void TextBatch::read_prompt(int64_t slot) {
  Slot& s = slots_[slot];
  const int64_t first = s.read;
  const std::span<const int32_t> rest = std::span(s.request.prompt).subspan(first);
  const auto [count, logits] =
      decoder_.read(slot, rest, s.request.prompt_probabilities ? LogitsOf::kEach : LogitsOf::kLast);
  s.tokens.insert(s.tokens.end(), rest.begin(), rest.begin() + count);
  s.read += count;
  counts_.prompt_tokens += count;
  if (s.request.prompt_probabilities) report_prompt(s, logits, first);
  if (s.read < std::ssize(s.request.prompt)) return;
  if (s.request.max_tokens == 0) return end(slot, Ending::kLength);
  take(slot, logits.last(static_cast<size_t>(decoder_.vocabulary())));
}

// Chooses the next token of a text from the logits after its last one.
void TextBatch::take(int64_t slot, std::span<const float> logits) {
  Slot& s = slots_[slot];
  const TextRequest& r = s.request;
  NewToken t{.index = std::ssize(s.tokens)};
  try {
    const bool may_stop = s.written >= r.min_tokens;
    const double u = sampling_uniform(r.seed, r.sequence, static_cast<uint64_t>(t.index));
    t.token =
        s.sampler[0].choose(logits, u, may_stop ? std::span<const int32_t>() : std::span(r.stops));
  } catch (const NumericError&) {
    return end(slot, Ending::kError);
  }
  if (std::ranges::find(r.stops, t.token) != r.stops.end()) return end(slot, Ending::kStop);
  if (r.top_probabilities >= 0) {
    const std::span<const float> known = logits.first(static_cast<size_t>(vocabulary_));
    t.log_probability = log_probability(known, t.token);
    t.top = most_probable(known, r.top_probabilities);
  }
  ++s.written;
  ++counts_.output_tokens;
  s.next = t.token;
  if (!r.each(t)) return end(slot, Ending::kStop);
  if (s.written == r.max_tokens) end(slot, Ending::kLength);
}

void TextBatch::step() {
  const int64_t count = std::ssize(slots_);
  // Texts that decode in this step: those whose prompts were complete before it.
  std::vector<SlotToken> rows;
  for (int64_t i = 0; i < count; ++i) {
    const Slot& s = slots_[i];
    if (s.used && s.read == std::ssize(s.request.prompt)) rows.push_back({i, s.next});
  }
  for (auto first = rows.begin(); first != rows.end();) {
    const int64_t group = decoder_.group_of(first->slot);
    const auto last = std::find_if(
        first, rows.end(), [&](const SlotToken& r) { return decoder_.group_of(r.slot) != group; });
    decoder_.step({first, last});
    for (auto row = first; row != last; ++row) {
      slots_[row->slot].tokens.push_back(row->token);
      take(row->slot, decoder_.logits(row->slot));
    }
    ++counts_.steps;
    first = last;
  }
  // Chunks of prompts are read in turn, so that a long prompt does not delay the others.
  int64_t chunks = 0;
  for (int64_t i = 0; i < count && chunks < kChunksPerStep; ++i) {
    const int64_t slot = (next_prompt_ + i) % count;
    const Slot& s = slots_[slot];
    if (!s.used || s.read == std::ssize(s.request.prompt)) continue;
    read_prompt(slot);
    ++chunks;
    if (chunks == kChunksPerStep) next_prompt_ = slot + 1;
  }
}

}  // namespace tessera::eval

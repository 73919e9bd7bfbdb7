// Reads preference data. Both texts of a pair are encoded as examples of their own: the line as it
// is, and the line with the other answer in place of the first.
#include "data/preferences.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"
#include "data/encode_cache.h"
#include "data/samples.h"
#include "data/tokenizer.h"

namespace tessera::data {
namespace {

constexpr int64_t kTexts = 2;

// Returns the length of what both texts begin with, without a blank at its end, which belongs to
// the answers. It ends between two characters.
size_t common_text(const std::string& a, const std::string& b) {
  const size_t most = std::min(a.size(), b.size());
  size_t n = 0;
  while (n < most && a[n] == b[n]) ++n;
  const auto continues = [&](const std::string& s) {
    return n < s.size() && (static_cast<unsigned char>(s[n]) & 0xc0) == 0x80;
  };
  while (n > 0 && (continues(a) || continues(b))) --n;
  return n > 0 && a[n - 1] == ' ' ? n - 1 : n;
}

size_t common_messages(const Tree::List& a, const Tree::List& b) {
  size_t n = 0;
  while (n < std::min(a.size(), b.size()) && to_json(a[n]) == to_json(b[n])) ++n;
  return n;
}

Tree part_of(const Tree::List& list, size_t from, size_t to) {
  Tree part = Tree::list();
  for (size_t i = from; i < to; ++i) part.push(list[i]);
  return part;
}

}  // namespace

// A line of one answer.
struct PreferenceData::Example {
  JsonExample line;
  std::string answer;  // the key of its answer
  double figure = 0;
};

namespace {

// Returns true if the prompt is in the answers: there is none, or it is a text and the answers are
// conversations that repeat it, as in ultrafeedback_binarized. TRL's rule.
bool prompt_is_in_answers(const Tree& line, const std::string& prompt, const std::string& chosen) {
  const Tree* own = line.find(prompt);
  if (own == nullptr || own->is_null()) return true;
  return own->as_string() != nullptr && line.find(chosen)->as_list() != nullptr;
}

// Makes the common beginning of both answers their prompt.
void split_prompt(Tree& line, const std::string& prompt, const std::string& chosen,
                  const std::string& rejected, const std::string& place) {
  const Tree a = *line.find(chosen), b = *line.find(rejected);
  const auto set = [&](Tree common, Tree first, Tree second) {
    line.set(prompt, std::move(common));
    line.set(chosen, std::move(first));
    line.set(rejected, std::move(second));
  };
  if (a.as_string() != nullptr && b.as_string() != nullptr) {
    const size_t n = common_text(*a.as_string(), *b.as_string());
    set(Tree(a.as_string()->substr(0, n)), Tree(a.as_string()->substr(n)),
        Tree(b.as_string()->substr(n)));
  } else if (a.as_list() != nullptr && b.as_list() != nullptr) {
    const Tree::List &x = *a.as_list(), &y = *b.as_list();
    const size_t n = common_messages(x, y);
    if (n == x.size() || n == y.size())
      throw Error("{}: '{}' and '{}' do not end in different messages, expected two answers", place,
                  chosen, rejected);
    if (n > 0) set(part_of(x, 0, n), part_of(x, n, x.size()), part_of(y, n, y.size()));
  }
}

JsonExample with_answer(const JsonExample& line, const std::string& key, const Tree& answer) {
  JsonExample other = line;
  other.tree.set(key, answer);
  return other;
}

double truth_in(const Tree& line, const std::string& key, const std::string& place) {
  const Tree* value = line.find(key);
  const bool* truth = value != nullptr ? std::get_if<bool>(&value->value) : nullptr;
  if (truth != nullptr) return *truth ? 1 : 0;
  const auto number = value != nullptr ? number_in(*value) : std::nullopt;
  if (number == 0.0 || number == 1.0) return *number;
  throw Error("{}: '{}' is {}, expected true (a desirable answer) or false", place, key,
              value == nullptr ? "missing" : to_json(*value));
}

}  // namespace

std::string PreferenceData::key(const char* ours) const {
  const auto found = spec_.chat.names.keys.find(ours);
  return found == spec_.chat.names.keys.end() ? ours : found->second;
}

// Returns the examples of a line: one with its answer under a key, or both answers of a pair under
// the key of the chosen one.
std::vector<PreferenceData::Example> PreferenceData::examples_of(const JsonExample& line,
                                                                 const std::string& place) const {
  if (line.tree.as_members() == nullptr)
    throw Error("{}: expected one JSON object per example", place);
  const auto has = [&](const char* ours) {
    const Tree* value = line.tree.find(key(ours));
    return value != nullptr && !value->is_null();
  };
  const std::string chosen = key("chosen"), rejected = key("rejected");
  if (has("chosen") && has("rejected")) {
    JsonExample pair = line;
    for (const char* other : {"messages", "conversations"})
      if (has(other))
        throw Error(
            "{}: the object has '{}' next to '{}' and '{}', expected the conversation under '{}'",
            place, key(other), chosen, rejected, key("prompt"));
    ConversationReader(spec_.chat.names).require_prompt(line.tree, place);
    const bool asks =
        has("instruction") || (has("question") && pair.tree.find(chosen)->as_list() == nullptr);
    if (!asks && prompt_is_in_answers(pair.tree, key("prompt"), chosen))
      split_prompt(pair.tree, key("prompt"), chosen, rejected, place);
    const Tree &a = *pair.tree.find(chosen), &b = *pair.tree.find(rejected);
    if ((a.as_string() == nullptr) != (b.as_string() == nullptr))
      throw Error("{}: one of '{}' and '{}' is a text, expected two texts or two lists of messages",
                  place, chosen, rejected);
    if (a.as_members() != nullptr && !asks && pair.tree.find(key("prompt")) == nullptr)
      throw Error("{}: '{}' is one message, expected '{}' with the messages before it", place,
                  chosen, key("prompt"));
    double margin = 0;
    if (has("margin")) {
      margin = number_in(*line.tree.find(key("margin"))).value_or(NAN);
      if (!std::isfinite(margin))
        throw Error("{}: '{}' is {}, expected a number", place, key("margin"),
                    to_json(*line.tree.find(key("margin"))));
    }
    const JsonExample other = with_answer(pair, chosen, *pair.tree.find(rejected));
    const bool examples = use_ == PreferenceUse::kExamples;
    return {{pair, chosen, examples ? 1 : margin}, {other, chosen, 0}};
  }
  if (use_ == PreferenceUse::kExamples && has("prompt") && has("completion"))
    return {{line, key("completion"), truth_in(line.tree, key("label"), place)}};
  std::string keys;
  for (const auto& [name, value] : *line.tree.as_members())
    keys += (keys.empty() ? "'" : ", '") + name + "'";
  throw Error(
      "{}: the object has {}, expected '{}' and '{}'{}. Name other keys in data.keys", place,
      keys.empty() ? "nothing" : keys, chosen, rejected,
      use_ == PreferenceUse::kExamples
          ? fmt::format(", or '{}', '{}' and '{}'", key("prompt"), key("completion"), key("label"))
          : "");
}

// Returns for each example the next one that has another prompt, around the end; the next one if
// all prompts are the same.
std::vector<size_t> PreferenceData::with_other_prompts(const std::vector<Example>& examples) const {
  const size_t n = examples.size();
  const auto prompt_of = [&](size_t i) {
    std::string text;
    for (const char* part : {"prompt", "question", "instruction", "input"})
      if (const Tree* t = examples[i].line.tree.find(key(part))) text += to_json(*t) + "\n";
    return text;
  };
  std::vector<size_t> others(n);
  std::vector<char> ends(n);  // the next example has another prompt
  for (size_t i = 0; i < n; ++i) {
    others[i] = (i + 1) % n;
    ends[i] = prompt_of(i) != prompt_of(others[i]);
  }
  if (std::ranges::find(ends, 1) == ends.end()) return others;
  // Backwards, twice, since the last examples may have to look at the first ones.
  for (size_t k = 2 * n; k-- > 0;)
    if (const size_t i = k % n; !ends[i]) others[i] = others[(i + 1) % n];
  return others;
}

PreferenceData::PreferenceData(InstructionSpec spec, PreferenceUse use, const Tokenizer& tokenizer)
    : spec_(std::move(spec)), use_(use) {
  CHECK(spec_.sequence_length > 0 && spec_.target_length == 0 && spec_.form.empty(),
        "rows of {} + {} tokens", spec_.sequence_length, spec_.target_length);
  if (!tokenizer.end_of_text())
    throw Error(
        "the tokenizer has no end-of-text token, which must end each answer. Use a tokenizer with "
        "<|endoftext|> or </s>");
  ExampleStream stream(spec_.files);
  file_names_ = stream.sources();
  spec_.chat.other_keys = {key("margin"), key("label")};
  ChatEncoder encoder(spec_.chat, tokenizer);
  const auto place_of = [&](const JsonExample& line) {
    return fmt::format("{}:{}", file_names_[line.source], line.line);
  };
  std::vector<Example> single;  // for kExamples: the second text needs the next example
  for (JsonExample line; stream.next(line);) {
    std::vector<Example> examples = examples_of(line, place_of(line));
    if (use_ == PreferenceUse::kExamples)
      std::move(examples.begin(), examples.end(), std::back_inserter(single));
    else
      add_pair(examples[0].line, examples[1].line, examples[0].figure, {line.source, line.line},
               encoder);
  }
  if (single.size() == 1)
    throw Error(
        "{}: there is one example, but kto compares each with the next, expected two or more",
        place_of(single[0].line));
  const std::vector<size_t> others = with_other_prompts(single);
  for (size_t i = 0; i < single.size(); ++i) {
    const Example &own = single[i], &other = single[others[i]];
    add_pair(own.line, with_answer(own.line, own.answer, *other.line.tree.find(other.answer)),
             own.figure, {own.line.source, own.line.line}, encoder);
  }
  const std::string skipped = skipped_reasons(counts_);
  if (pairs() == 0)
    throw Error("there is no pair of answers in {}{}", fmt::join(spec_.files, ", "),
                skipped.empty() ? "" : fmt::format(" (skipped: {})", skipped));
  stops_ = encoder.stops();
  counts_.forms = encoder.forms();
  counts_.add_notes(encoder.notes());
  references_.assign(kTexts * pairs(), 0.0);
}

void PreferenceData::add_pair(const JsonExample& first, const JsonExample& second, double figure,
                              Line line, ChatEncoder& encoder) {
  const std::string place = fmt::format("{}:{}", file_names_[line.file], line.number);
  const size_t start = ids_.size();
  encoder.add(first, place, ids_, learned_);
  const size_t middle = ids_.size();
  encoder.add(second, place, ids_, learned_);
  if (!cut_pair(start, middle, place)) {
    ids_.resize(start);
    learned_.resize(start);
    return;
  }
  figures_.push_back(figure);
  lines_.push_back(line);
}

// Ends a pair: truncates both texts to what a row has room for, or throws Error. Returns false for
// a pair that is skipped.
bool PreferenceData::cut_pair(size_t start, size_t middle, const std::string& place) {
  // The last token of a text is only a label, except where it gives the score.
  const size_t label = use_ == PreferenceUse::kScores ? 0 : 1;
  const size_t most = spec_.sequence_length;
  const auto places = [&](size_t tokens) { return tokens - std::min(tokens, label); };
  const size_t first = places(middle - start), second = places(ids_.size() - middle);
  const bool fits = first + second <= most;
  if (!fits && spec_.long_examples == LongExamples::kError)
    throw Error(
        "{}: {} and {} tokens of both texts do not fit data.sequence_length = {}. Raise it, or set "
        "data.long_examples to skip or truncate",
        place, first, second, most);
  if (!fits && spec_.long_examples == LongExamples::kSkip) {
    ++counts_.skipped_long;
    return false;
  }
  // Both texts are cut to the same length, or only the longer one if the other leaves it more room.
  const size_t limit = std::max(most / 2, most - std::min(most, std::min(first, second)));
  const auto erase_after = [&](size_t from, size_t to, size_t kept) {
    if (to - from <= kept) return;
    ids_.erase(ids_.begin() + from + kept, ids_.begin() + to);
    learned_.erase(learned_.begin() + from + kept, learned_.begin() + to);
  };
  if (!fits) {
    erase_after(middle, ids_.size(), limit + label);
    erase_after(start, middle, limit + label);
    middle = std::min(middle, start + limit + label);
  }
  const auto has_answer = [&](size_t from, size_t to) {
    return to > from + label && std::find(learned_.begin() + from + 1, learned_.begin() + to, 1) !=
                                    learned_.begin() + to;
  };
  if (!has_answer(start, middle) || !has_answer(middle, ids_.size())) {
    ++counts_.skipped_empty;
    return false;
  }
  counts_.truncated += fits ? 0 : 1;
  starts_.push_back(static_cast<int64_t>(middle));
  starts_.push_back(std::ssize(ids_));
  return true;
}

void PreferenceData::set_references(std::vector<double> references) {
  CHECK(std::ssize(references) == kTexts * pairs(), "{} references of {} pairs", references.size(),
        pairs());
  references_ = std::move(references);
}

std::span<const double> PreferenceData::references(int64_t pair) const {
  return std::span(references_).subspan(kTexts * pair, kTexts);
}

std::span<const int32_t> PreferenceData::ids(int64_t pair, int64_t answer) const {
  const int64_t text = kTexts * pair + answer;
  return std::span(ids_).subspan(starts_[text], starts_[text + 1] - starts_[text]);
}

std::span<const char> PreferenceData::learned(int64_t pair, int64_t answer) const {
  return std::span(learned_).subspan(starts_[kTexts * pair + answer], ids(pair, answer).size());
}

int64_t PreferenceData::chosen_tokens(int64_t pair) const {
  const auto flags = learned(pair, 0).subspan(1);
  return std::accumulate(flags.begin(), flags.end(), int64_t{0});
}

int64_t PreferenceData::pair_of(int64_t sample) const {
  CHECK(sample >= 0, "sample {}", sample);
  const uint64_t key = Philox{hash_name("preferences.rows", spec_.seed)}.word(sample / pairs());
  return Permutation(key, pairs())(sample % pairs());
}

void PreferenceData::read_text(int64_t pair, int64_t answer, size_t& at,
                               const SampleRow& row) const {
  const auto tokens = ids(pair, answer);
  const auto flags = learned(pair, answer);
  const bool scores = use_ == PreferenceUse::kScores;
  const size_t places = tokens.size() - (scores ? 0 : 1);
  for (size_t t = 0; t < places; ++t, ++at) {
    const bool has_loss = t + 1 < tokens.size() && flags[t + 1] != 0;
    const bool counts = scores ? t + 1 == tokens.size() : has_loss;
    row.tokens[at] = tokens[t];
    row.labels[at] = has_loss ? tokens[t + 1] : kIgnoredLabel;
    row.positions[at] = static_cast<int32_t>(t);
    row.documents[at] = static_cast<int32_t>(answer);
    row.answers[at] = counts ? static_cast<int32_t>(answer) : kNoAnswer;
  }
}

void PreferenceData::read_pair(int64_t pair, const SampleRow& row) const {
  CHECK(std::ssize(row.tokens) == spec_.sequence_length &&
            std::ssize(row.answers) == spec_.sequence_length &&
            std::ssize(row.references) == kPreferenceFigures,
        "a row of {} tokens, {} answers, {} references", row.tokens.size(), row.answers.size(),
        row.references.size());
  size_t at = 0;
  for (int64_t answer = 0; answer < kTexts; ++answer) read_text(pair, answer, at, row);
  clear_row(at, row);
  row.references[0] = references_[kTexts * pair];
  row.references[1] = references_[kTexts * pair + 1];
  row.references[2] = figures_[pair];
}

InstructionCounts PreferenceData::counts() const {
  InstructionCounts c = counts_;
  const int64_t texts = kTexts * pairs();
  const bool single = use_ == PreferenceUse::kExamples;
  c.examples = single ? pairs() : texts;
  c.pairs = single ? 0 : pairs();
  c.rows = pairs();
  c.tokens = tokens();
  for (int64_t text = 0; text < texts; ++text) {
    const auto flags = learned(text / kTexts, text % kTexts).subspan(1);
    c.response_tokens = std::accumulate(flags.begin(), flags.end(), c.response_tokens);
  }
  c.positions = pairs() * spec_.sequence_length;
  c.padding = c.positions - (c.tokens - (use_ == PreferenceUse::kScores ? 0 : texts));
  return c;
}

std::string PreferenceData::place(int64_t pair) const {
  return fmt::format("{}:{}", file_names_[lines_[pair].file], lines_[pair].number);
}

uint64_t PreferenceData::fingerprint() const {
  uint64_t hash = static_cast<uint64_t>(use_);
  const auto add = [&](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    const uint64_t two[] = {
        hash, hash_bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()})};
    hash = hash_bytes({reinterpret_cast<const char*>(two), sizeof two});
  };
  add(ids_);
  add(learned_);
  add(starts_);
  add(figures_);
  return hash;
}

void PreferenceData::require_vocabulary(int64_t vocabulary) const {
  for (int64_t pair = 0; pair < pairs(); ++pair)
    for (int64_t answer = 0; answer < kTexts; ++answer)
      for (const int32_t id : ids(pair, answer))
        if (id < 0 || id >= vocabulary)
          throw Error("{}: token {} is outside the model's vocabulary of {}", place(pair), id,
                      vocabulary);
}

void fill_pair_batch(const PreferenceData& data, int64_t first, int64_t end, const BatchView& out) {
  const size_t rows = out.samples.size(), length = out.tokens.size() / rows * out.part.count;
  std::vector<int32_t> tokens(length), labels(length), positions(length), answers(length);
  for (size_t b = 0; b < rows; ++b) {
    const auto row = [&](auto all) {
      return all.subspan(b * all.size() / rows, all.size() / rows);
    };
    const SampleRow whole = {tokens, labels,  positions,          row(out.documents),
                             {},     answers, row(out.references)};
    const int64_t pair = first + static_cast<int64_t>(b);
    out.samples[b] = pair;
    if (pair < end) {
      data.read_pair(pair, whole);
    } else {
      clear_row(0, whole);
      std::ranges::fill(whole.references, 0.0);
    }
    copy_part(tokens, 1, out.part, row(out.tokens));
    copy_part(labels, 1, out.part, row(out.labels));
    copy_part(positions, 1, out.part, row(out.positions));
    copy_part(answers, 1, out.part, row(out.answers));
  }
}

}  // namespace tessera::data

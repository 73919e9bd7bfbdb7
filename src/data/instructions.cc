// Reads instruction data, encodes each example by its template, and packs whole examples into rows.
//
// All examples are in one array of ids with one flag per token: 1 if the token has a loss. An
// example of n tokens occupies n - 1 positions of a row, since its first token is never a label and
// its last token is only a label. Rows are packed once (best fit); every epoch visits them in its
// own random order.
#include "data/instructions.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/philox.h"
#include "base/tree.h"
#include "data/samples.h"
#include "data/tokenizer.h"

namespace tessera::data {
namespace {

struct Turn {
  const Tree* fields = nullptr;  // values of the template's names; nullptr: a turn of messages
  std::string prompt, response;
};

const char* kind_of(const Tree& value) {
  constexpr std::array kKinds{"null",   "true or false", "an integer", "a number",
                              "a text", "a list",        "an object"};
  return kKinds[value.value.index()];
}

std::string keys_of(const Tree& object) {
  std::string keys;
  for (const auto& [key, value] : *object.as_members()) {
    keys += (keys.empty() ? "'" : ", '") + key + "'";
  }
  return keys.empty() ? "nothing" : keys;
}

const std::string& text_of(const Tree& object, const std::string& key, const std::string& place) {
  const Tree* value = object.find(key);
  if (value == nullptr) {
    throw Error("{}: there is no '{}'; the object has {}. The template requires it", place, key,
                keys_of(object));
  }
  if (value->as_string() == nullptr)
    throw Error("{}: '{}' is {}, expected a text", place, key, kind_of(*value));
  return *value->as_string();
}

// Returns the text under "system" with an empty line after it; empty if there is none.
std::string system_of(const Tree& line, const std::string& place) {
  const Tree* value = line.find("system");
  if (value == nullptr || value->is_null()) return {};
  const std::string& text = text_of(line, "system", place);
  return text.empty() ? text : text + "\n\n";
}

// Pairs user and assistant messages into turns; a leading system message, or that of the key
// "system", is prepended to the first prompt.
std::vector<Turn> turns_of_messages(const Tree& line, const Tree& messages,
                                    const std::string& place) {
  if (messages.as_list() == nullptr)
    throw Error("{}: 'messages' is {}, expected a list", place, kind_of(messages));
  std::vector<Turn> turns;
  std::string system = system_of(line, place), prompt;
  bool asked = false, first = true;
  size_t at = 0;
  for (const Tree& message : *messages.as_list()) {
    const std::string here = fmt::format("{}: messages[{}]", place, at++);
    if (message.as_members() == nullptr)
      throw Error("{}: is not an object, expected one with 'role' and 'content'", here);
    const std::string& role = text_of(message, "role", here);
    const std::string& content = text_of(message, "content", here);
    // Roles alternate, starting with the user.
    const char* wanted = asked ? "assistant" : "user";
    if (std::exchange(first, false) && role == "system") {
      const std::string given = std::exchange(system, content + "\n\n");
      if (!given.empty() && given != system)
        throw Error(
            "{}: 'system' and the first message are two system messages with different texts. "
            "Remove one of them",
            place);
    } else if (role != wanted) {
      throw Error(
          "{}: the role is '{}', expected '{}': user and assistant alternate, and a system message "
          "may only be the first",
          here, role, wanted);
    } else if (asked) {
      turns.push_back({nullptr, prompt, content});
      asked = false;
    } else {
      prompt = std::exchange(system, {}) + content;
      asked = true;
    }
  }
  if (messages.as_list()->empty())
    throw Error("{}: 'messages' is empty, expected turns of user and assistant", place);
  if (asked || turns.empty())
    throw Error("{}: the last message is not from the assistant, expected a response", place);
  return turns;
}

std::vector<Turn> turns_of(const Tree& line, const InstructionTemplate& form,
                           const std::string& place) {
  if (line.as_members() == nullptr) throw Error("{}: expected one JSON object per line", place);
  if (const Tree* messages = line.find("messages")) {
    for (const std::string& name : form.names()) {
      if (name == "prompt") continue;
      throw Error("{}: the template has {{{}}}, but for messages there is only {{prompt}}", place,
                  name);
    }
    return turns_of_messages(line, *messages, place);
  }
  // Checks that all names exist and are text, before anything is encoded.
  for (const std::string& name : form.names()) text_of(line, name, place);
  return {{&line, {}, text_of(line, "response", place)}};
}

// Adds the keys of a line that turns_of() does not read.
void add_unread(const Tree& line, const InstructionTemplate& form, std::set<std::string>& unread) {
  std::vector<std::string> read = form.names();
  read.emplace_back("response");
  if (line.find("messages") != nullptr) read = {"messages", "system"};
  for (const auto& [key, value] : *line.as_members())
    if (!value.is_null() && std::ranges::find(read, key) == read.end()) unread.insert(key);
}

}  // namespace

InstructionData::InstructionData(InstructionSpec spec, const Tokenizer& tokenizer)
    : spec_(std::move(spec)) {
  CHECK(spec_.sequence_length > 0, "rows of {} tokens", spec_.sequence_length);
  if (!tokenizer.end_of_text()) {
    throw Error(
        "the tokenizer has no end-of-text token, which must end each response. Use a tokenizer "
        "with <|endoftext|> or </s>");
  }
  ExampleStream stream(spec_.files);
  file_names_ = stream.sources();
  if (spec_.form.empty()) {
    read_chat(stream, tokenizer);
  } else {
    form_.emplace(spec_.form);
    ending_ = turn_ending(*form_, tokenizer);
    if (ending_.token) stops_.push_back(*ending_.token);
    stops_.push_back(*tokenizer.end_of_text());
    std::set<std::string> unread;
    for (JsonExample line; stream.next(line);) {
      add_line(line, tokenizer);
      add_unread(line.tree, *form_, unread);
    }
    counts_.unread.assign(unread.begin(), unread.end());
  }
  if (examples() == 0) {
    const std::string skipped = skipped_reasons(counts_);
    throw Error("there is no example in {}{}", fmt::join(spec_.files, ", "),
                skipped.empty() ? "" : fmt::format(" (skipped: {})", skipped));
  }
  // The number of positions that each example occupies. A pair for an encoder–decoder model
  // occupies a whole row.
  std::vector<int32_t> lengths;
  for (int64_t e = 0; e < examples(); ++e) {
    const int64_t places = std::ssize(ids(e)) - 1;
    lengths.push_back(
        static_cast<int32_t>(spec_.target_length > 0 ? spec_.sequence_length : places));
  }
  packing_ = std::make_unique<RowPacking>(lengths, spec_.sequence_length,
                                          hash_name("instructions.packing", spec_.seed));
}

void InstructionData::read_chat(ExampleStream& stream, const Tokenizer& tokenizer) {
  CHECK(spec_.target_length == 0, "chat data for an encoder-decoder model");
  ChatEncoder encoder(spec_.chat, tokenizer);
  for (JsonExample line; stream.next(line);) {
    const std::string place = fmt::format("{}:{}", file_names_[line.source], line.line);
    encoder.add(line, place, ids_, learned_);
    end_example({line.source, line.line}, place);
  }
  stops_ = encoder.stops();
  counts_.forms = encoder.forms();
  counts_.add_notes(encoder.notes());
}

void InstructionData::add_line(const JsonExample& line, const Tokenizer& tokenizer) {
  const std::string place = fmt::format("{}:{}", file_names_[line.source], line.line);
  // A small cache for this line only, since little of the text in one line repeats.
  EncodeCache cache(int64_t{1} << 16);
  const auto add = [&](const std::string& text, bool learned) {
    if (!text.empty()) tokenizer.encode(text, ids_, cache);
    learned_.resize(ids_.size(), learned ? 1 : 0);
  };
  const Line here{line.source, line.line};
  // If the template ends a turn with its own special token, the end-of-text token follows only the
  // last turn. Otherwise it ends each turn.
  const bool pairs = spec_.target_length > 0, turns_end = ending_.token.has_value();
  const std::vector<Turn> turns = turns_of(line.tree, *form_, place);
  for (const Turn& turn : turns) {
    const size_t start = starts_.back();
    const bool begins = ids_.size() == start;
    const auto value = [&](const std::string& name) -> const std::string& {
      return turn.fields == nullptr ? turn.prompt : *turn.fields->find(name)->as_string();
    };
    add(form_->before(value), false);
    const std::optional<int32_t> begin = tokenizer.text_begin();
    // If the template itself begins with the begin-of-text token, it is not added again.
    const bool written = ids_.size() > start && ids_[start] == begin;
    if (begins && begin && !written) {
      ids_.insert(ids_.begin() + start, *begin);
      learned_.resize(ids_.size(), 0);
    }
    if (pairs && tokenizer.source_end()) {
      ids_.push_back(*tokenizer.source_end());
      learned_.push_back(0);
    }
    const size_t response = ids_.size();
    add(turn.response + ending_.text, true);
    if (!pairs) add(form_->after(value), false);
    if (pairs || !turns_end || &turn == &turns.back()) {
      ids_.push_back(*tokenizer.end_of_text());
      learned_.push_back(1);
    }
    if (pairs) end_pair(response, here, place);
  }
  if (!pairs) end_example(here, place);
}

// Ends a pair for an encoder–decoder model: truncates it to its lengths, skips it, or throws Error.
void InstructionData::end_pair(size_t response, Line line, const std::string& place) {
  const size_t start = starts_.back();
  const size_t most = spec_.sequence_length;
  const size_t most_target = spec_.target_length;
  const size_t source = response - start, target = ids_.size() - response;
  if (source == 0)
    throw Error("{}: the prompt is empty, but an encoder–decoder model needs one", place);
  const bool fits = source <= most && target <= most_target;
  if (!fits && spec_.long_examples == LongExamples::kError)
    throw Error(
        "{}: {} and {} tokens do not fit data.sequence_length = {} and data.target_length = {}. "
        "Raise them, or set data.long_examples to skip or truncate",
        place, source, target, most, most_target);
  const auto cut = [&](size_t from, size_t count) {
    ids_.erase(ids_.begin() + from, ids_.begin() + from + count);
    learned_.erase(learned_.begin() + from, learned_.begin() + from + count);
  };
  if (!fits && spec_.long_examples == LongExamples::kSkip) {
    cut(start, ids_.size() - start);
    ++counts_.skipped_long;
    return;
  }
  // The target is truncated first, since that does not move the source.
  if (target > most_target) cut(response + most_target, target - most_target);
  if (source > most) cut(start + most, source - most);
  counts_.cut += !fits;
  starts_.push_back(std::ssize(ids_));
  lines_.push_back(line);
  CHECK(examples() < std::numeric_limits<int32_t>::max(), "{} examples", examples());
}

void InstructionData::end_example(Line line, const std::string& place) {
  const size_t start = starts_.back();
  const size_t most = spec_.sequence_length + 1, size = ids_.size() - start;
  if (size > most && spec_.long_examples == LongExamples::kError) {
    throw Error(
        "{}: {} tokens do not fit data.sequence_length = {}. Raise it, or set data.long_examples "
        "to skip or truncate",
        place, size, spec_.sequence_length);
  }
  // An example without a label that has a loss, or with a single token, is skipped.
  size_t kept = std::min(size, most);
  const auto first = learned_.begin() + start;
  const auto end = first + kept;
  const bool skip = size > most && spec_.long_examples == LongExamples::kSkip;
  // The first token is never a label, so its flag is ignored.
  if (skip || kept < 2 || std::find(first + 1, end, 1) == end) {
    ++(skip ? counts_.skipped_long : counts_.skipped_empty);
    kept = 0;
  }
  ids_.resize(start + kept);
  learned_.resize(ids_.size());
  if (kept > 0) {
    counts_.cut += size > kept;
    starts_.push_back(std::ssize(ids_));
    lines_.push_back(line);
  }
  CHECK(examples() < std::numeric_limits<int32_t>::max(), "{} examples", examples());
}

int64_t InstructionData::response_tokens() const {
  int64_t sum = 0;
  for (int64_t e = 0; e < examples(); ++e) {
    const auto flags = learned(e).subspan(1);
    sum = std::accumulate(flags.begin(), flags.end(), sum);
  }
  return sum;
}

InstructionCounts InstructionData::counts() const {
  InstructionCounts c = counts_;
  c.examples = examples();
  c.rows = rows();
  c.tokens = tokens();
  c.response_tokens = response_tokens();
  c.positions = rows() * (spec_.sequence_length + spec_.target_length);
  // The last token of a packed example is only a label.
  c.padding = c.positions - (c.tokens - (spec_.target_length > 0 ? 0 : c.examples));
  return c;
}

std::string InstructionData::place(int64_t example) const {
  const Line& line = lines_[example];
  return fmt::format("{}:{}", file_names_[line.file], line.number);
}

int64_t InstructionData::response_bytes(const Tokenizer& tokenizer) const {
  const int32_t end = tokenizer.end_of_text().value_or(-1);
  int64_t bytes = 0;
  for (size_t i = 0; i < ids_.size(); ++i)
    if (learned_[i] != 0 && ids_[i] != end && !tokenizer.is_special(ids_[i]))
      bytes += tokenizer.token_bytes(ids_[i]).size();
  return bytes;
}

std::span<const int32_t> InstructionData::ids(int64_t example) const {
  const size_t begin = starts_[example];
  const size_t end = starts_[example + 1];
  return std::span(ids_).subspan(begin, end - begin);
}

std::span<const char> InstructionData::learned(int64_t example) const {
  const size_t begin = starts_[example];
  return std::span(learned_).subspan(begin, ids(example).size());
}

std::span<const int32_t> InstructionData::row_examples(int64_t sample) const {
  CHECK(sample >= 0, "sample {}", sample);
  // One permutation of the rows per epoch, keyed by (seed, epoch), so any row is found directly.
  const uint64_t key = Philox{hash_name("instructions.rows", spec_.seed)}.word(sample / rows());
  return packing_->row(Permutation(key, rows())(sample % rows()));
}

void InstructionData::read_pair(int64_t example, const SampleRow& row) const {
  CHECK(std::ssize(row.tokens) == spec_.target_length &&
            std::ssize(row.source) == spec_.sequence_length,
        "a row of {} + {}", row.source.size(), row.tokens.size());
  const auto tokens = ids(example);
  const auto flags = learned(example);
  // The target begins at the first token with a loss, since no token of the source has one.
  const size_t source = std::find(flags.begin(), flags.end(), 1) - flags.begin();
  std::fill(row.source.begin(), row.source.end(), 0);
  std::copy_n(tokens.begin(), source, row.source.begin());
  clear_row(0, row);
  const auto target = tokens.subspan(source);
  std::copy(target.begin(), target.end(), row.labels.begin());
  // The decoder reads its labels shifted by one, after token 0 (teacher forcing).
  std::copy(target.begin(), target.end() - 1, row.tokens.begin() + 1);
  std::fill_n(row.documents.begin(), target.size(), 0);
}

void InstructionData::read_row(int64_t sample, const SampleRow& row) const {
  read_examples(row_examples(sample), row);
}

void InstructionData::read_packed_row(int64_t i, const SampleRow& row) const {
  read_examples(packing_->row(i), row);
}

void InstructionData::read_examples(std::span<const int32_t> examples, const SampleRow& row) const {
  if (spec_.target_length > 0) return read_pair(examples[0], row);
  CHECK(std::ssize(row.tokens) == spec_.sequence_length, "a row of {}", row.tokens.size());
  size_t at = 0;
  int32_t document = 0;
  for (const int32_t example : examples) {
    const auto tokens = ids(example);
    const auto flags = learned(example);
    // Token t predicts token t + 1, which has a loss if its flag is set.
    for (size_t t = 0; t + 1 < tokens.size(); ++t, ++at) {
      row.tokens[at] = tokens[t];
      row.labels[at] = flags[t + 1] != 0 ? tokens[t + 1] : kIgnoredLabel;
      row.positions[at] = static_cast<int32_t>(spec_.intra_document_masking ? t : at);
      row.documents[at] = document;
    }
    ++document;
  }
  clear_row(at, row);
}

// Best-fit bin packing (Johnson 1974) of examples into rows, in a random order. Open rows are
// sorted by free space, so the row of an example is found in O(log rows). A counting sort then
// lists the examples by row.
RowPacking::RowPacking(std::span<const int32_t> lengths, int64_t row, uint64_t key) {
  const Permutation order(key, std::ssize(lengths));
  std::vector<int32_t> row_of(lengths.size());
  std::multimap<int64_t, int32_t> open;  // free space → row
  int32_t rows = 0;
  for (int64_t i = 0; i < std::ssize(lengths); ++i) {
    const size_t thing = order(i);
    const int64_t length = lengths[thing];
    CHECK(length > 0 && length <= row, "an item of {} in a row of {}", length, row);
    // The open row with the smallest sufficient free space.
    const auto best = open.lower_bound(length);
    const int64_t room = (best == open.end() ? row : best->first) - length;
    row_of[thing] = best == open.end() ? rows++ : best->second;
    if (best != open.end()) open.erase(best);
    if (room > 0) open.emplace(room, row_of[thing]);
  }
  starts_.assign(rows + 1, 0);
  // starts_ contains the number of items per row, then their prefix sums, as in a counting sort.
  for (const int32_t r : row_of) ++starts_[r + 1];
  for (size_t r = 1; r < starts_.size(); ++r) starts_[r] += starts_[r - 1];
  things_.resize(lengths.size());
  std::vector<int64_t> next = starts_;
  for (int64_t i = 0; i < std::ssize(lengths); ++i) {
    // Within a row, items are in the order of packing too.
    const int64_t thing = order(i);
    const size_t r = row_of[thing];
    things_[next[r]++] = static_cast<int32_t>(thing);
  }
}

std::span<const int32_t> RowPacking::row(int64_t i) const {
  CHECK(i >= 0 && i < rows(), "row {} of {}", i, rows());
  const size_t begin = starts_[i];
  const size_t end = starts_[i + 1];
  return std::span(things_).subspan(begin, end - begin);
}

}  // namespace tessera::data

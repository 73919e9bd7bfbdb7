// Decodes a few ids at a time: the text of a token may depend on the ones before it, so the last
// ids whose text is final are decoded again with the new ones, and the difference is new.
#include "eval/text_stream.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "eval/text_rules.h"

namespace tessera::eval {
namespace {

constexpr size_t kBefore = 6;        // ids of the prompt that are decoded with the first token
constexpr size_t kMostHeldBack = 8;  // tokens after which bytes that are not UTF-8 are shown
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Returns the number of characters of as_utf8(text) that end at byte `end` of `text` or before it.
int64_t characters_until(std::string_view text, size_t end) {
  int64_t count = 0;
  for (size_t i = 0; i < text.size(); ++count) {
    i += std::max<size_t>(utf8_length(text, i), 1);
    if (i > end) break;
  }
  return count;
}

// Returns the text without an end that the next token may turn into another character.
std::string_view settled(std::string_view text) {
  text.remove_suffix(incomplete_bytes(text));
  while (text.ends_with(kReplacement)) text.remove_suffix(kReplacement.size());
  return text;
}

}  // namespace

size_t incomplete_bytes(std::string_view text) {
  size_t back = 0;
  while (back < text.size() && back < 4) {
    const auto byte = static_cast<unsigned char>(text[text.size() - 1 - back]);
    ++back;
    if ((byte & 0xC0) == 0x80) continue;  // a continuation byte (10xxxxxx)
    // The high bits of a lead byte contain the length of the character.
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

std::string as_utf8(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text, i);
    out += length > 0 ? text.substr(i, length) : kReplacement;
    i += std::max<size_t>(length, 1);
  }
  return out;
}

size_t begun_stop(std::string_view text, const std::vector<std::string>& stops) {
  size_t most = 0;
  for (const std::string& stop : stops) {
    if (stop.empty()) continue;
    for (size_t n = std::min(stop.size() - 1, text.size()); n > most; --n)
      if (text.ends_with(std::string_view(stop).substr(0, n))) most = n;
  }
  return most;
}

TextStream::TextStream(const data::Tokenizer& tokenizer, std::span<const int32_t> before,
                       std::vector<std::string> stops, bool special)
    : tokenizer_(tokenizer), stops_(std::move(stops)), special_(special) {
  std::erase(stops_, "");
  for (const int32_t id : before.last(std::min(before.size(), kBefore)))
    if (id < tokenizer_.vocabulary_size() && !tokenizer_.is_special(id)) ids_.push_back(id);
  shown_ = ids_.size();
}

// Returns the text of the ids that were added since the last call that returned some, or nothing if
// it ends inside a character.
std::string TextStream::decoded() {
  const std::span<const int32_t> all = ids_;
  const std::string old = written_text(tokenizer_, all.first(shown_));
  const std::string before = written_text(tokenizer_, all.first(all.size() - 1));
  std::string text = written_text(tokenizer_, all);
  // The decoder may write the start of a character differently once it is complete.
  const size_t same = std::ranges::mismatch(before, text).in1 - before.begin();
  if (const std::string_view now = settled(text); now.size() > old.size() && same > old.size())
    offset_ += characters_until(now.substr(old.size()), same - old.size());
  const bool waits = incomplete_bytes(text) > 0 || text.ends_with(kReplacement);
  if (text.size() <= old.size() || (waits && all.size() - shown_ < kMostHeldBack)) return "";
  text.erase(0, old.size());
  characters_ += characters_until(text, text.size());
  // The next text is decoded after these ids.
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<int64_t>(shown_));
  shown_ = ids_.size();
  return text;
}

// Returns the pending text before the first stop text. Without one, keeps back an end that may be
// the beginning of a stop text, unless no more text follows (`last`).
std::string TextStream::without_stops(bool last) {
  size_t at = pending_.npos;
  for (const std::string& stop : stops_) at = std::min(at, pending_.find(stop));
  if (at != pending_.npos) {
    stopped_ = true;
    pending_.resize(at);
    last = true;
  }
  const size_t kept = last ? 0 : begun_stop(pending_, stops_);
  std::string text = pending_.substr(0, pending_.size() - kept);
  pending_.erase(0, text.size());
  return text;
}

std::string TextStream::add(int32_t id) {
  offset_ = characters_;
  if (stopped_ || id >= tokenizer_.vocabulary_size()) return "";
  if (!special_ && tokenizer_.is_special(id)) {
    // It is not shown, but a stop text may be its name.
    const bool stops =
        std::ranges::find(stops_, written_text(tokenizer_, {&id, 1})) != stops_.end();
    std::string rest = stops ? finish() : "";
    stopped_ = stopped_ || stops;
    return rest;
  }
  ids_.push_back(id);
  pending_ += decoded();
  return as_utf8(without_stops(false));
}

std::string TextStream::finish() {
  if (stopped_) return "";
  const std::string old = written_text(tokenizer_, std::span(ids_).first(shown_));
  const std::string text = written_text(tokenizer_, ids_);
  shown_ = ids_.size();
  if (text.size() > old.size()) pending_ += text.substr(old.size());
  return as_utf8(without_stops(true));
}

}  // namespace tessera::eval

// The order of symbols is that of Hugging Face's tokenizers, where an unknown character is written
// only before the next known one: bytes of a fallback may overtake it.
#include "data/bpe_characters.h"

#include <fmt/format.h>

#include "data/unicode.h"

namespace tessera::data {

BpeCharacters::BpeCharacters(const BpeDescription& bpe)
    : inner_prefix_(bpe.inner_prefix),
      end_suffix_(bpe.end_suffix),
      byte_fallback_(bpe.byte_fallback),
      fuse_unknown_(bpe.fuse_unknown) {
  byte_id_.fill(-1);
  const bool affixes = !inner_prefix_.empty() || !end_suffix_.empty();
  for (const auto& [text, id] : bpe.vocabulary) {
    if (text == bpe.unknown) unknown_ = id;
    // Fallback looks up the spelling with capital letters only.
    if (const auto byte = byte_of_token(text); byte && text == fmt::format("<0x{:02X}>", *byte))
      byte_id_[*byte] = id;
    if (affixes) vocabulary_.emplace(text, id);
    if (text.empty()) continue;
    const Utf8 first = decode_utf8(text);
    if (first.bytes == std::ssize(text)) characters_.emplace(first.code, id);
  }
  if (bpe.unknown.empty()) unknown_ = -1;
}

// Returns the token of the character at `at`, or -1.
int32_t BpeCharacters::find(std::string_view word, size_t at, size_t bytes) const {
  const bool inner = at > 0, last = at + bytes == word.size();
  if ((inner && !inner_prefix_.empty()) || (last && !end_suffix_.empty())) {
    std::string text = inner ? inner_prefix_ : "";
    text += word.substr(at, bytes);
    if (last) text += end_suffix_;
    const auto found = vocabulary_.find(text);
    return found == vocabulary_.end() ? -1 : found->second;
  }
  const auto found = characters_.find(decode_utf8(word.substr(at)).code);
  return found == characters_.end() ? -1 : found->second;
}

// Appends the byte tokens of a text; appends nothing and returns false if one of them is missing.
bool BpeCharacters::append_bytes(std::string_view text, std::vector<int32_t>& ids) const {
  for (size_t i = 0; i < text.size(); ++i) {
    const int32_t id = byte_id_[byte_at(text, i)];
    if (id < 0) return ids.resize(ids.size() - i), false;
    ids.push_back(id);
  }
  return true;
}

int64_t BpeCharacters::append(std::string_view word, std::vector<int32_t>& ids) const {
  constexpr std::string_view kReplacement = "\uFFFD";
  int64_t replaced = 0;
  int32_t pending = -1;  // an unknown token that is not appended yet
  size_t bytes = 0;
  for (size_t at = 0; at < word.size(); at += bytes) {
    const Utf8 u = decode_utf8(word.substr(at));
    bytes = u.bytes;
    std::string_view character = word.substr(at, bytes);
    int32_t id = -1;
    if (u.code != Utf8::kInvalid) {
      id = find(word, at, bytes);
    } else if (byte_fallback_ && append_bytes(character, ids)) {
      continue;
    } else {
      ++replaced;
      character = kReplacement;
      const auto known = characters_.find(0xFFFD);
      if (known != characters_.end()) id = known->second;
    }
    if (id >= 0) {
      if (pending >= 0) ids.push_back(pending);
      pending = -1;
      ids.push_back(id);
      continue;
    }
    // With affixes, the bytes of the fallback are the bytes of the character with its affixes.
    std::string spelled(at > 0 ? inner_prefix_ : "");
    spelled += character;
    if (at + bytes == word.size()) spelled += end_suffix_;
    if (byte_fallback_ && append_bytes(spelled, ids)) continue;
    if (pending >= 0 && !fuse_unknown_) ids.push_back(pending);
    pending = unknown_;
  }
  if (pending >= 0) ids.push_back(pending);
  return replaced;
}

}  // namespace tessera::data

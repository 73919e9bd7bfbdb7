// Finds added tokens in a text by walking a trie of their bytes from each position where one may
// begin; the longest match is used. A table of the first two bytes of all tokens skips most
// positions, and memchr skips more if all tokens begin with the same byte, as "<|...|>" do. At most
// kLongestAddedToken bytes are compared per position, so the time is linear in the text.
#include "data/added_tokens.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tessera::data {
void AddedTokenFinder::add(const AddedToken& token) {
  CHECK(!token.content.empty(), "added token {} is empty", token.id);
  size_t node = 0;
  for (const char c : token.content) {
    auto& children = nodes_[node].children;
    const auto known = std::find_if(children.begin(), children.end(),
                                    [c](const auto& child) { return child.first == c; });
    if (known != children.end()) {
      node = known->second;
      continue;
    }
    children.emplace_back(c, static_cast<int32_t>(nodes_.size()));
    node = nodes_.size();
    nodes_.emplace_back();
  }
  // If several tokens have this content, the first one is used.
  if (nodes_[node].token >= 0) return;
  nodes_[node].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
  const size_t first = byte_at(token.content, 0);
  if (firsts_.find(token.content[0]) == std::string::npos) firsts_ += token.content[0];
  if (token.content.size() == 1) {
    first_[first] = true;
  } else {
    first_two_[first << 8 | byte_at(token.content, 1)] = true;
  }
}

bool AddedTokenFinder::may_begin(std::string_view text, size_t at) const {
  const size_t first = byte_at(text, at);
  return first_[first] || (at + 1 < text.size() && first_two_[first << 8 | byte_at(text, at + 1)]);
}

// Returns the next position at or after `at` where a token may begin.
size_t AddedTokenFinder::skip(std::string_view text, size_t at) const {
  while (at < text.size()) {
    if (firsts_.size() == 1) {
      at = text.find(firsts_[0], at);
      if (at == text.npos) return text.size();
    }
    if (may_begin(text, at)) return at;
    ++at;
  }
  return at;
}

bool AddedTokenFinder::stands_alone(std::string_view text, size_t begin, size_t end) const {
  const bool before =
      begin > 0 && (table_[decode_utf8_backwards(text.substr(0, begin)).code] & kWord);
  const bool after = end < text.size() && (table_[decode_utf8(text.substr(end)).code] & kWord);
  return !before && !after;
}

// Returns the end of the spaces at `begin`. A run of spaces is scanned once, however many tokens
// are in it: each of them would otherwise scan the rest of the run, in quadratic time.
size_t AddedTokenFinder::after_spaces(std::string_view text, size_t begin, Search& search) const {
  if (begin >= search.spaces_begin && begin < search.spaces_end) return search.spaces_end;
  size_t end = begin;
  while (end < text.size()) {
    const Utf8 u = decode_utf8(text.substr(end));
    if (!is_space(u)) break;
    end += u.bytes;
  }
  search.spaces_begin = begin;
  search.spaces_end = end;
  return end;
}

AddedTokenFinder::Match AddedTokenFinder::next(std::string_view text, size_t from,
                                               Search& search) const {
  if (tokens_.empty()) return {};
  while ((search.at = skip(text, search.at)) < text.size()) {
    // Follows the trie as far as possible. The last token on the path is the longest one.
    int32_t found = -1;
    size_t end = search.at, node = 0;
    for (size_t i = search.at; i < text.size(); ++i) {
      const auto& children = nodes_[node].children;
      const auto child = std::find_if(children.begin(), children.end(),
                                      [&](const auto& c) { return c.first == text[i]; });
      if (child == children.end()) break;
      node = child->second;
      if (nodes_[node].token < 0) continue;
      found = nodes_[node].token;
      end = i + 1;
    }
    if (found < 0) {
      ++search.at;
      continue;
    }
    const AddedToken& token = tokens_[found];
    // The search continues after the token even if single_word rejects it, as in Hugging Face's
    // tokenizers.
    size_t begin = search.at;
    search.at = end;
    if (token.single_word && !stands_alone(text, begin, end)) continue;
    while (token.lstrip && begin > from) {
      const Utf8 u = decode_utf8_backwards(text.substr(0, begin));
      if (!is_space(u)) break;
      begin -= u.bytes;
    }
    if (token.rstrip) end = after_spaces(text, end, search);
    return {token.id, begin, end};
  }
  return {};
}

}  // namespace tessera::data

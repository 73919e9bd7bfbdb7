// Added tokens, which are not part of a BPE vocabulary and are matched in a text before it is split
// into words: <|endoftext|>, runs of spaces, tokens that a user added.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/unicode.h"

namespace tessera::data {

// In bytes. At most this many are compared at each position of a text, so the time of a search is
// linear in the length of the text.
constexpr size_t kLongestAddedToken = 512;

// An entry of "added_tokens" in tokenizer.json.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // only matches if no \w is directly before or after it
  bool lstrip = false;       // the match includes the spaces before it
  bool rstrip = false;       // the match includes the spaces after it
  bool normalized = true;    // matched in the normalized text; false: in the raw text
  bool special = false;
};

// Finds a set of tokens in a text as Hugging Face's tokenizers do: from left to right, and the
// longest token if several begin at a position. A token that violates its single_word rule is
// skipped as a whole.
class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(const UnicodeTable& table) : table_(table) {}

  // Adds a token, whose content must not be empty. Of two with the same content, the first is used.
  void add(const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  struct Match {
    int32_t id = -1;  // -1: no further match
    size_t begin = 0, end = 0;
  };
  // The state of a search in one text.
  struct Search {
    size_t at = 0;                            // the next position to search
    size_t spaces_begin = 0, spaces_end = 0;  // the last run of spaces that rstrip matched
  };
  // Returns the next match, searching from search.at, and advances `search`. `from` is the end of
  // the text that previous matches have consumed. A match includes the spaces of lstrip and rstrip.
  // It may begin before `from` if the token itself consists of spaces that the previous match
  // included.
  Match next(std::string_view text, size_t from, Search& search) const;

 private:
  struct Node {
    std::vector<std::pair<char, int32_t>> children;
    int32_t token = -1;  // index into tokens_
  };
  bool may_begin(std::string_view text, size_t at) const;
  size_t skip(std::string_view text, size_t at) const;
  bool stands_alone(std::string_view text, size_t begin, size_t end) const;
  bool is_space(Utf8 u) const { return (table_[u.code] & kClassMask) == kSpace; }
  size_t after_spaces(std::string_view text, size_t begin, Search& search) const;

  const UnicodeTable& table_;
  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_{1};
  std::vector<bool> first_two_ = std::vector<bool>(65536);
  std::vector<bool> first_ = std::vector<bool>(256);
  std::string firsts_;  // the distinct first bytes of all tokens
};

}  // namespace tessera::data

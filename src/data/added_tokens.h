// The tokens that stand beside a byte-pair vocabulary and are cut out of the text before it is
// split into words: <|endoftext|>, runs of spaces, names that a user added.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/unicode.h"

namespace tessera::data {

// In bytes. At most this many are compared at each position of a text, so the search takes time
// proportional to the text.
constexpr size_t kLongestAddedToken = 512;

// As tokenizer.json lists it under "added_tokens".
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // not directly beside a \w
  bool lstrip = false;       // takes the spaces before it
  bool rstrip = false;       // takes the spaces after it
  bool normalized = true;    // is looked for in the text after normalisation, else before
  bool special = false;
};

// Finds a set of tokens in a text as Hugging Face's tokenizers do: from left to right, the longest
// one where several begin; what does not fit its single_word rule is passed over whole.
class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(const UnicodeTable& table) : table_(table) {}

  // Where two have the same content the first one counts. Content is not empty.
  void add(const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  struct Match {
    int32_t id = -1;  // -1: none is left
    size_t begin = 0, end = 0;
  };
  // How far a text has been searched.
  struct Search {
    size_t at = 0;
    size_t spaces_begin = 0, spaces_end = 0;  // the run that a token last took by rstrip
  };
  // The next token of text[from…]: `search` is where to look, `from` where what is not yet consumed
  // begins. Advances `search`. The spaces that a token takes are part of the match; a match may
  // begin before `from` where the one before has taken spaces that this one is made of.
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
  std::string firsts_;  // the different first bytes
};

}  // namespace tessera::data

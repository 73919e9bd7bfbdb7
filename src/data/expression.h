// Regular expressions over text, in the syntax and with the matches of Oniguruma, which Hugging
// Face's tokenizers use. PCRE2 does the matching; the sets of characters are our own tables, of
// Unicode 16.0.0.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/unicode_sets.h"

namespace tessera::data {

struct PatternMatch {
  size_t begin = 0, end = 0;  // bytes
};

// A compiled expression. Immutable: threads may share it.
class Expression {
 public:
  // Supported are literals; sets ([…], also nested and with &&; \p{…} of named_set(), \s \d \w and
  // their complements); ., ^, $, \A, \z, \b and \B; groups, (?i:…) for ASCII, lookahead, lookbehind
  // of fixed length, atomic groups; and greedy, lazy and possessive quantifiers. Throws Error,
  // which names the construct, for all others, for an invalid expression and for one that can match
  // the empty text.
  explicit Expression(std::string_view pattern);
  ~Expression();
  Expression(Expression&&) noexcept;
  Expression& operator=(Expression&&) noexcept;

  // Calls `found` for each match, from left to right; matches do not overlap. A byte that is not
  // UTF-8 is a character that only negated sets contain. Throws Error if a match needs too many
  // steps. Expressions that are slow on runs of one or two kinds of characters are rejected by the
  // constructor.
  void each_match(std::string_view text, const std::function<void(PatternMatch)>& found) const;

 private:
  struct Code;  // PCRE2's
  size_t number_characters(const std::vector<CodeSet>& sets, std::vector<std::string>& members);
  uint8_t number_of(char32_t code) const {
    return pages_[size_t{page_of_[code >> 8]} * 256 + (code & 255)];
  }
  std::string numbers_of(std::string_view text) const;

  std::string pattern_;
  // Characters that no set of the expression distinguishes have the same number.
  std::vector<uint16_t> page_of_;  // [0x1101]
  std::vector<uint8_t> pages_;     // [pages, 256]
  std::unique_ptr<Code> code_;
};

}  // namespace tessera::data

// Sets of code points, as the classes of regular expressions name them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::data {

// A set of code points. A byte that is not UTF-8 counts as the code point kNotUtf8, which only
// complements contain.
class CodeSet {
 public:
  static constexpr uint32_t kNotUtf8 = 0x110000;
  using Range = std::pair<uint32_t, uint32_t>;  // the first and the last code point

  CodeSet() = default;
  CodeSet(uint32_t first, uint32_t last) : ranges_{{first, last}} {}

  void add(uint32_t first, uint32_t last) { add(CodeSet(first, last)); }
  void add(const CodeSet& other);
  CodeSet complement() const;
  CodeSet intersect(const CodeSet& other) const;

  const std::vector<Range>& ranges() const { return ranges_; }  // ascending, not adjacent
  bool operator==(const CodeSet&) const = default;

 private:
  std::vector<Range> ranges_;
};

// Returns a set by its name in \p{…}: a general category or its first letter (Lu, L), or a script
// (Han, Hangul, Hiragana, Katakana), all of Unicode 16.0.0; HfNumeric, HfPunctuation and HfWord are
// the sets below. Nothing for another name.
std::optional<CodeSet> named_set(std::string_view name);
// \w of Oniguruma, the expression library of Hugging Face's tokenizers.
CodeSet word_set();
// \w of Rust's regex library, which their pre-tokenizer Whitespace uses.
CodeSet rust_word_set();
CodeSet space_set();  // \s: White_Space
// Rust's is_numeric, of Unicode 17: the pre-tokenizer Digits.
CodeSet numeric_set();
// ASCII punctuation and symbols, and category P of Unicode 8.0: the pre-tokenizer Punctuation.
CodeSet punctuation_set();
// Category M of Unicode 9.0: what the normalizer StripAccents removes.
CodeSet mark_set();

// ---- The generated tables.

// Returns pairs (code point << 8 | category) in ascending order; a category applies up to the next
// pair. Categories are numbered in alphabetical order, with Cn first.
std::span<const uint32_t> category_ranges();
// Returns the first and last code points of the ranges of a script or older class; empty: unknown.
std::span<const uint32_t> set_ranges(std::string_view name);

}  // namespace tessera::data

// The pre-tokenizers of a tokenizer.json before its ByteLevel: they split a text into pieces, which
// the model encodes one by one.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text_pattern.h"

namespace tessera::data {

// Specifies the pieces that matches of a split belong to.
enum class SplitBehavior : uint8_t {
  kIsolated,            // each match is a piece
  kRemoved,             // matches are omitted
  kMergedWithPrevious,  // a match is the end of the piece before it, if that is not a match
  kMergedWithNext,      // a match begins the piece after it, if that is not a match
  kContiguous           // neighboring matches are one piece
};
constexpr const char* enum_names(SplitBehavior) {
  return "Isolated|Removed|MergedWithPrevious|MergedWithNext|Contiguous";
}

// Where Metaspace adds its character: always, at the beginning of the whole text only, or never.
enum class PrependScheme : uint8_t { kAlways, kFirst, kNever };
constexpr const char* enum_names(PrependScheme) { return "always|first|never"; }

struct SplitStep {
  // The kinds without a pattern of their own have the sets of unicode_sets.h.
  enum class Kind : uint8_t {
    kSplit,
    kDigits,
    kPunctuation,
    kWhitespace,
    kWhitespaceSplit,
    kMetaspace
  };
  Kind kind = Kind::kSplit;
  PatternText pattern;                                // kSplit; kMetaspace: the replacement
  SplitBehavior behavior = SplitBehavior::kIsolated;  // kSplit, kDigits, kPunctuation
  bool invert = false;                                // kSplit: match what the pattern does not
  PrependScheme prepend = PrependScheme::kAlways;     // kMetaspace
  bool split = true;                                  // kMetaspace
  bool operator==(const SplitStep&) const = default;
};
constexpr const char* enum_names(SplitStep::Kind) {
  return "Split|Digits|Punctuation|Whitespace|WhitespaceSplit|Metaspace";
}

class Splitter {
 public:
  // Throws Error if a pattern is not supported.
  explicit Splitter(const std::vector<SplitStep>& steps);

  bool empty() const { return steps_.empty(); }

  // Calls `found` for each piece of `text`, which is not empty; a piece is not empty either and is
  // valid during the call. at_start: `text` is at the beginning of the whole text.
  void each_piece(std::string_view text, bool at_start,
                  const std::function<void(std::string_view)>& found) const;

 private:
  struct Step {
    SplitStep step;
    TextPattern pattern;
  };
  struct Run;  // one call of each_piece
  std::vector<Step> steps_;
};

}  // namespace tessera::data

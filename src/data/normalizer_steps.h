// The normalizers of a tokenizer.json.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text_pattern.h"
#include "data/unicode.h"

namespace tessera::data {

struct NormalizerStep {
  enum class Kind : uint8_t {
    kNfc,
    kNfd,
    kNfkc,
    kNfkd,
    kLowercase,
    kStripAccents,
    kStrip,
    kPrepend,
    kReplace
  };
  Kind kind = Kind::kNfc;
  PatternText pattern;               // kReplace
  std::string content;               // kReplace, kPrepend: the new text
  bool left = false, right = false;  // kStrip: the ends at which spaces are removed
  bool operator==(const NormalizerStep&) const = default;
};
constexpr const char* enum_names(NormalizerStep::Kind) {
  return "NFC|NFD|NFKC|NFKD|Lowercase|StripAccents|Strip|Prepend|Replace";
}

class Normalizer {
 public:
  // Throws Error if a pattern is not supported.
  explicit Normalizer(const std::vector<NormalizerStep>& steps);

  // Returns `text` itself if nothing changes, otherwise the normalized text in `storage`. Bytes
  // that are not UTF-8 stay as they are.
  std::string_view apply(std::string_view text, std::string& storage) const;

  // Returns true if all steps are NFC or NFD, which change nothing across a space between visible
  // ASCII characters.
  bool keeps_gaps() const { return keeps_gaps_; }

 private:
  struct Step {
    NormalizerStep step;
    std::optional<TextPattern> pattern;
  };
  bool changes(const Step& step, std::string_view text) const;
  void append(const Step& step, std::string_view text, std::string& out) const;

  const UnicodeTable& unicode_ = unicode_table();
  std::vector<Step> steps_;
  std::vector<bool> marks_;  // indexed by code point: StripAccents removes it
  bool keeps_gaps_ = true;
};

}  // namespace tessera::data

// Sets as sorted ranges, built from the generated tables when a tokenizer is loaded.
#include "data/unicode_sets.h"

#include <algorithm>
#include <array>
#include <string>

#include "data/unicode.h"

namespace tessera::data {
namespace {

constexpr std::array<std::string_view, 30> kNames = {
    "Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl",
    "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"};

// Returns the code points for which `selects` returns true for the low byte of their range.
template <class F>
CodeSet select(std::span<const uint32_t> table, const F& selects) {
  CodeSet out;
  for (size_t i = 0; i < table.size(); ++i) {
    const uint32_t end = i + 1 < table.size() ? table[i + 1] >> 8 : CodeSet::kNotUtf8;
    if (selects(table[i] & 0xFF)) out.add(table[i] >> 8, end - 1);
  }
  return out;
}

CodeSet from_pairs(std::span<const uint32_t> pairs) {
  CodeSet out;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) out.add(pairs[i], pairs[i + 1]);
  return out;
}

}  // namespace

void CodeSet::add(const CodeSet& other) {
  // Ascending ranges, the usual case, are appended without a look at those before.
  const bool ascending =
      ranges_.empty() || other.ranges_.empty() || ranges_.back().second < other.ranges_[0].first;
  size_t kept = ascending ? ranges_.size() : 0;
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  if (!ascending) std::sort(ranges_.begin(), ranges_.end());
  for (size_t i = kept; i < ranges_.size(); ++i) {
    if (kept > 0 && ranges_[i].first <= ranges_[kept - 1].second + 1)
      ranges_[kept - 1].second = std::max(ranges_[kept - 1].second, ranges_[i].second);
    else
      ranges_[kept++] = ranges_[i];
  }
  ranges_.resize(kept);
}

CodeSet CodeSet::complement() const {
  CodeSet out;
  uint32_t next = 0;
  for (const auto& [first, last] : ranges_) {
    if (first > next) out.ranges_.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= kNotUtf8) out.ranges_.emplace_back(next, kNotUtf8);
  return out;
}

CodeSet CodeSet::intersect(const CodeSet& other) const {
  CodeSet either = complement();
  either.add(other.complement());
  return either.complement();
}

std::optional<CodeSet> named_set(std::string_view name) {
  if (name == "Han" || name == "Hangul" || name == "Hiragana" || name == "Katakana")
    return from_pairs(set_ranges(name));
  if (name == "HfNumeric") return numeric_set();
  if (name == "HfPunctuation") return punctuation_set();
  if (name == "HfWord") return rust_word_set();
  if (name.empty() || name.size() > 2) return std::nullopt;
  bool known = false;
  CodeSet out = select(category_ranges(),
                       [&](uint32_t category) { return kNames[category].starts_with(name); });
  for (const std::string_view each : kNames) known = known || each.starts_with(name);
  if (!known) return std::nullopt;
  return out;
}

CodeSet word_set() {
  CodeSet out = rust_word_set();
  // Not the joiners, and six numbers of Latin-1.
  out = out.intersect(CodeSet(0x200C, 0x200D).complement());
  for (const uint32_t code : {0xB2, 0xB3, 0xB9, 0xBC, 0xBD, 0xBE}) out.add(code, code);
  return out;
}

CodeSet rust_word_set() {
  return select(unicode_ranges(), [](uint32_t flags) { return (flags & kWord) != 0; });
}

CodeSet space_set() {
  return select(unicode_ranges(), [](uint32_t flags) { return (flags & kClassMask) == kSpace; });
}

CodeSet numeric_set() {
  CodeSet out = *named_set("N");
  out.add(0x11DE0, 0x11DE9);
  out.add(0x16FF4, 0x16FF6);
  return out;
}

CodeSet punctuation_set() {
  CodeSet out = from_pairs(set_ranges("Punctuation8"));
  for (const auto& [first, last] : {CodeSet::Range{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}})
    out.add(first, last);
  return out;
}

CodeSet mark_set() { return from_pairs(set_ranges("Marks9")); }

}  // namespace tessera::data

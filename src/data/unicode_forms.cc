// Decomposition, ordering and composition (NFC, NFD, NFKC, NFKD, Unicode Standard Annex 15), in
// time O(n log n), and lower case. base/code_points.h provides the character data and the
// composition; this file orders the marks.
#include <algorithm>

#include "base/code_points.h"
#include "data/unicode.h"

namespace tessera::data {
namespace {

Normalization options_of(NormalizationForm form) {
  using Form = NormalizationForm;
  return {.composes = form == Form::kNfc || form == Form::kNfkc,
          .compatible = form == Form::kNfkc || form == Form::kNfkd};
}

// Upper case letters that utf8proc may not have yet, up to Unicode 17: a range and the distance to
// lower case.
struct CaseRange {
  CodePoint first, last, distance;
};
constexpr CaseRange kLaterCases[] = {
    {0x1C89, 0x1C89, 1},      {0xA7CB, 0xA7CB, 0x264 - 0xA7CB},
    {0xA7CC, 0xA7CC, 1},      {0xA7CE, 0xA7CE, 1},
    {0xA7D2, 0xA7D2, 1},      {0xA7D4, 0xA7D4, 1},
    {0xA7DA, 0xA7DA, 1},      {0xA7DC, 0xA7DC, 0x19B - 0xA7DC},
    {0x10D50, 0x10D65, 0x20}, {0x16EA0, 0x16EB8, 0x1B},
};

// Sorts each run of combining marks by combining class; marks of equal class keep their order, as
// the standard requires. (utf8proc_decompose exchanges neighbors, which needs quadratic time for
// long runs, as in hostile text.)
void order_marks(std::vector<CodePoint>& codes) {
  const auto is_mark = [](CodePoint code) { return combining_class(code) != 0; };
  const auto before = [](auto a, auto b) { return combining_class(a) < combining_class(b); };
  for (auto at = codes.begin(); at != codes.end();) {
    const auto begin = std::find_if(at, codes.end(), is_mark);
    const auto end = std::find_if_not(begin, codes.end(), is_mark);
    if (!std::is_sorted(begin, end, before)) std::stable_sort(begin, end, before);
    at = end;
  }
}

// Appends the form of `text`, which is valid UTF-8 without kUnknownToNfc characters.
void append_known(std::string_view text, Normalization options, std::vector<CodePoint>& codes,
                  std::string& out) {
  codes.clear();
  for (size_t i = 0; i < text.size();) {
    const Utf8 u = decode_utf8(text.substr(i));
    append_decomposed(static_cast<CodePoint>(u.code), options, codes);
    i += u.bytes;
  }
  // Composition expects the marks in canonical order.
  order_marks(codes);
  if (options.composes) compose(codes, options);
  for (const CodePoint code : codes) append_utf8(code, out);
}

}  // namespace

bool may_change_under_nfc(std::string_view text, const UnicodeTable& table) {
  size_t i = 0;
  while (i < text.size()) {
    // Everything below U+0300, whose first byte is 0xCC, is unchanged by NFC and does not combine
    // with what precedes it.
    if (byte_at(text, i) < 0xCC) {
      ++i;
      continue;
    }
    const Utf8 u = decode_utf8(text.substr(i));
    if (table[u.code] & kChangesUnderNfc) return true;
    i += u.bytes;
  }
  return false;
}

void append_normalized(std::string_view text, NormalizationForm form, const UnicodeTable& table,
                       std::string& out) {
  const Normalization options = options_of(form);
  std::vector<CodePoint> codes;
  size_t from = 0, i = 0;
  while (i < text.size()) {
    const Utf8 u = decode_utf8(text.substr(i));
    const size_t bytes = u.bytes;
    // An unknown character or invalid byte is copied as it is. The parts before and after it are
    // normalized independently.
    if (u.code == Utf8::kInvalid || (table[u.code] & kUnknownToNfc)) {
      append_known(text.substr(from, i - from), options, codes, out);
      out.append(text.substr(i, bytes));
      from = i + bytes;
    }
    i += bytes;
  }
  append_known(text.substr(from), options, codes, out);
}

void append_lowercase(std::string_view character, std::string& out) {
  const Utf8 u = decode_utf8(character);
  if (u.code == Utf8::kInvalid) {
    out += character;
    return;
  }
  // The only letter whose lower case has two characters.
  if (u.code == 0x130) {
    out += "i\u0307";
    return;
  }
  const auto code = static_cast<CodePoint>(u.code);
  for (const CaseRange& range : kLaterCases)
    if (code >= range.first && code <= range.last) return append_utf8(code + range.distance, out);
  append_utf8(to_lower(code), out);
}

}  // namespace tessera::data

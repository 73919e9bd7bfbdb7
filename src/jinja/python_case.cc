// Implements Python's changes of case, which are those of the Unicode standard (section 3.13):
// a letter may become several ("ß" is "SS"), and the last letter of "ΟΣ" becomes "ς".
//
// base/code_points.h maps one letter to one letter, but the case folding of a letter that becomes
// several has all of them: its upper case is the upper case of each. The only letter whose lower
// case has several is U+0130, which has a folding too. In title case, an iota that is written below
// its letter stays below it. Python 3.11 (Unicode 14) returns the same for every code point except
// five modifier letters, such as U+10FC, which have become lower-case letters since.
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/code_points.h"
#include "jinja/python_text.h"

namespace tessera::jinja {
namespace {

constexpr CodePoint kCapitalSigma = 0x3a3, kSigma = 0x3c3, kFinalSigma = 0x3c2, kIota = 0x3b9,
                    kIotaBelow = 0x345, kSharpS = 0xdf, kCapitalIWithDot = 0x130;

struct Character {
  std::string_view text;
  CodePoint code = -1;  // -1: a byte that is not UTF-8
};

std::vector<Character> decoded(std::string_view s) {
  std::vector<Character> out;
  for (const std::string_view text : characters(s)) out.push_back({text, code_point_of(text)});
  return out;
}

void append_upper(const Character& c, std::string& out) {
  if (c.code < 0) {
    out += c.text;
    return;
  }
  const std::vector<CodePoint> letters = case_folding(c.code);
  if (letters.size() == 1 || is_upper(c.code)) return append_utf8(to_upper(c.code), out);
  for (const CodePoint letter : letters) append_utf8(to_upper(letter), out);
}

void append_title(const Character& c, std::string& out) {
  if (c.code < 0) {
    out += c.text;
    return;
  }
  const CodePoint single = to_title(c.code);
  const std::vector<CodePoint> letters = case_folding(c.code);
  const bool has_single = single != c.code && c.code != kSharpS;
  if (letters.size() == 1 || has_single || is_upper(c.code) || is_title(c.code))
    return append_utf8(single, out);
  bool raised = false;
  for (const CodePoint letter : letters) {
    const CodePoint title = raised ? letter : to_title(letter);
    raised = raised || title != letter;
    append_utf8(title == kIota ? kIotaBelow : title, out);
  }
}

// The properties Cased and Case_Ignorable.
bool is_cased(CodePoint code) {
  return code >= 0 && (is_lower(code) || is_upper(code) || is_title(code));
}

bool is_ignorable(CodePoint code) {
  // Punctuation between letters: apostrophes, full stops, colons and middle dots.
  constexpr std::array<CodePoint, 17> kPunctuation = {
      0x27,   0x2e,   0x3a,   0xb7,   0x387,  0x55f,  0x5f4,  0x2018, 0x2019,
      0x2024, 0x2027, 0xfe13, 0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};
  return code >= 0 && (modifies_letters(code) || std::find(kPunctuation.begin(), kPunctuation.end(),
                                                           code) != kPunctuation.end());
}

// Returns true if a cased letter comes before text[at] and none after it, where ignorable
// characters may be between.
bool is_last_letter(std::span<const Character> text, size_t at) {
  const auto relevant = [](const Character& c) { return !is_ignorable(c.code); };
  const auto before = text.first(at), after = text.subspan(at + 1);
  const auto last = std::find_if(before.rbegin(), before.rend(), relevant);
  if (last == before.rend() || !is_cased(last->code)) return false;
  const auto next = std::find_if(after.begin(), after.end(), relevant);
  return next == after.end() || !is_cased(next->code);
}

void append_lower(std::span<const Character> text, size_t at, std::string& out) {
  const Character& c = text[at];
  if (c.code < 0)
    out += c.text;
  else if (c.code == kCapitalSigma)
    append_utf8(is_last_letter(text, at) ? kFinalSigma : kSigma, out);
  else if (c.code == kCapitalIWithDot)
    for (const CodePoint letter : case_folding(c.code)) append_utf8(letter, out);
  else
    append_utf8(to_lower(c.code), out);
}

bool separates_parts(std::string_view character) {
  size_t bytes = 0;
  return is_space(character, 0, bytes) ||
         std::string_view("-({[<").find(character) != std::string_view::npos;
}

// Jinja's filter `title`: the parts between separators, each with str.upper() for its first
// character and str.lower() for the others.
void append_parts(std::span<const Character> text, std::string& out) {
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && !separates_parts(text[end].text)) ++end;
    if (end > at) append_upper(text[at], out);
    const auto others = text.subspan(std::min(at + 1, end), end - std::min(at + 1, end));
    for (size_t i = 0; i < others.size(); ++i) append_lower(others, i, out);
    if (end < text.size()) out += text[end].text;
    at = end + 1;
  }
}

}  // namespace

std::string with_case(std::string_view s, Case to) {
  const std::vector<Character> text = decoded(s);
  std::string out;
  out.reserve(s.size());
  if (to == Case::kWords) {
    append_parts(text, out);
    return out;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const bool starts = i == 0 || (to == Case::kTitle && !is_cased(text[i - 1].code));
    if (to == Case::kUpper)
      append_upper(text[i], out);
    else if (to != Case::kLower && starts)
      append_title(text[i], out);
    else
      append_lower(text, i, out);
  }
  return out;
}

}  // namespace tessera::jinja

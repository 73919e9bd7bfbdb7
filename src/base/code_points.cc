// Calls utf8proc.
#include "base/code_points.h"

#include <utf8proc.h>

#include <array>

#include "base/error.h"

namespace tessera {
namespace {

// No decomposition has more than 18 characters.
using Parts = std::array<CodePoint, 18>;

utf8proc_ssize_t decompose(CodePoint code, int options, Parts& parts) {
  int boundary = 0;
  const utf8proc_ssize_t n = utf8proc_decompose_char(
      code, parts.data(), std::ssize(parts), static_cast<utf8proc_option_t>(options), &boundary);
  CHECK(n >= 0 && n <= std::ssize(parts), "utf8proc_decompose_char: {}", n);
  return n;
}

int options_of(Normalization form) {
  return UTF8PROC_STABLE | (form.composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
         (form.compatible ? UTF8PROC_COMPAT : 0);
}

}  // namespace

CodePoint code_point_of(std::string_view character) {
  CodePoint code = -1;
  const auto* const bytes = reinterpret_cast<const utf8proc_uint8_t*>(character.data());
  utf8proc_iterate(bytes, std::ssize(character), &code);
  return code;
}

void append_utf8(CodePoint code, std::string& out) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto length = utf8proc_encode_char(code, bytes.data());
  out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(length));
}

int combining_class(CodePoint code) { return utf8proc_get_property(code)->combining_class; }

void append_decomposed(CodePoint code, Normalization form, std::vector<CodePoint>& codes) {
  Parts parts;
  const auto n = decompose(code, options_of(form), parts);
  codes.insert(codes.end(), parts.begin(), parts.begin() + n);
}

void compose(std::vector<CodePoint>& codes, Normalization form) {
  const auto n = utf8proc_normalize_utf32(codes.data(), std::ssize(codes),
                                          static_cast<utf8proc_option_t>(options_of(form)));
  CHECK(n >= 0, "utf8proc_normalize_utf32: {}", n);
  codes.resize(static_cast<size_t>(n));
}

CodePoint to_upper(CodePoint code) { return utf8proc_toupper(code); }
CodePoint to_lower(CodePoint code) { return utf8proc_tolower(code); }
CodePoint to_title(CodePoint code) { return utf8proc_totitle(code); }

std::vector<CodePoint> case_folding(CodePoint code) {
  Parts parts;
  const auto n = decompose(code, UTF8PROC_CASEFOLD, parts);
  return {parts.begin(), parts.begin() + n};
}

bool is_upper(CodePoint code) { return utf8proc_isupper(code) != 0; }
bool is_lower(CodePoint code) { return utf8proc_islower(code) != 0; }
bool is_title(CodePoint code) { return utf8proc_category(code) == UTF8PROC_CATEGORY_LT; }

bool modifies_letters(CodePoint code) {
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return false;
  }
}

}  // namespace tessera

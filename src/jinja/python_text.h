// Text as Python handles it: str(), repr(), json.dumps(), and strings as sequences of characters.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace tessera::jinja {

// Returns the characters of a string. A byte that is not UTF-8 is a character.
std::vector<std::string_view> characters(std::string_view s);

// Returns true if the character that starts at s[at] is white space for Python's str.isspace(), and
// sets `bytes` to its length.
bool is_space(std::string_view s, size_t at, size_t& bytes);

// Python's strip(), lstrip() and rstrip(): removes characters of `set`, or white space without one.
enum class Side : uint8_t { kBoth, kLeft, kRight };
std::string_view stripped(std::string_view s, Side side = Side::kBoth,
                          const std::string* set = nullptr);

// Python's str() and repr(). An undefined value is the empty text. Throw Fault for functions and
// generators.
std::string to_text(const Value& v);
std::string representation(const Value& v);
std::string text_of_number(double x);

// The arguments of json.dumps(). `indent`: spaces per level; without it, one line.
struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false;
  std::optional<int64_t> indent;
  std::optional<std::pair<std::string, std::string>> separators;  // between items, after a key
};
// Returns the text that Python's json.dumps() writes. Throws Fault for values that are not JSON.
std::string json_text(const Value& v, const JsonStyle& style);

// Python's str.upper(), lower(), title() and capitalize(), with the Unicode version of utf8proc.
enum class Case : uint8_t {
  kUpper,
  kLower,
  kTitle,
  kCapitalized,
  kWords  // the filter `title`: a part starts only after white space or one of -({[<
};
std::string with_case(std::string_view s, Case to);

// Python's s[start:stop:step] of a sequence of `size` elements: the indices in their order.
std::vector<size_t> slice_indices(int64_t size, const std::optional<int64_t>& start,
                                  const std::optional<int64_t>& stop, int64_t step);

}  // namespace tessera::jinja

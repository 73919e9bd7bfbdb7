// Implements Python's conversions of values to text, and its string operations on code points.
//
// repr() must match as well as str(): a list or dictionary that a template prints shows its strings
// in quotes, with Python's choice between ' and " and its escapes.
#include "jinja/python_text.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/utf8.h"

namespace tessera::jinja {
namespace {

struct CodeRange {
  uint32_t first, last;
};

// Code points for which str.isspace() is true.
constexpr std::array kSpaces{CodeRange{0x09, 0x0d},     CodeRange{0x1c, 0x20},
                             CodeRange{0x85, 0x85},     CodeRange{0xa0, 0xa0},
                             CodeRange{0x1680, 0x1680}, CodeRange{0x2000, 0x200a},
                             CodeRange{0x2028, 0x2029}, CodeRange{0x202f, 0x202f},
                             CodeRange{0x205f, 0x205f}, CodeRange{0x3000, 0x3000}};
// Code points that repr() escapes: separators, controls, formats and private use.
constexpr std::array kEscaped{
    CodeRange{0x00, 0x1f},     CodeRange{0x7f, 0xa0},     CodeRange{0xad, 0xad},
    CodeRange{0x1680, 0x1680}, CodeRange{0x2000, 0x200f}, CodeRange{0x2028, 0x202f},
    CodeRange{0x205f, 0x206f}, CodeRange{0x3000, 0x3000}, CodeRange{0xd800, 0xf8ff},
    CodeRange{0xfeff, 0xfeff}, CodeRange{0xfff0, 0xfffb}, CodeRange{0xe0000, 0x10ffff}};

template <class Ranges>
bool is_in(const Ranges& ranges, uint32_t code) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const CodeRange& r) { return r.first <= code && code <= r.last; });
}

size_t length_at(std::string_view s, size_t at) { return std::max<size_t>(utf8_length(s, at), 1); }

uint32_t code_at(std::string_view s, size_t at, size_t bytes) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(s[at + i]); };
  if (bytes == 1) return byte(0);
  uint32_t code = byte(0) & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) code = code << 6 | (byte(i) & 0x3fu);
  return code;
}

std::string quoted(std::string_view s) {
  const bool has_single = s.find('\'') != s.npos, has_double = s.find('"') != s.npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0, n = 0; at < s.size(); at += n) {
    n = length_at(s, at);
    const char c = s[at];
    const uint32_t code = code_at(s, at, n);
    if (c == quote || c == '\\')
      out += {'\\', c};
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (!is_in(kEscaped, code))
      out += s.substr(at, n);
    else
      out += code < 0x100     ? fmt::format("\\x{:02x}", code)
             : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                              : fmt::format("\\U{:08x}", code);
  }
  return out + quote;
}

std::string text_of_list(const ListValue& list) {
  if (list.kind == ListKind::kGenerator || list.kind == ListKind::kView)
    throw Fault{"a generator cannot be printed; write `| list` after it"};
  std::string out;
  for (const Value& v : list.items) out += (out.empty() ? "" : ", ") + representation(v);
  if (list.kind == ListKind::kList) return "[" + out + "]";
  return "(" + out + (list.items.size() == 1 ? ",)" : ")");
}

}  // namespace

std::vector<std::string_view> characters(std::string_view s) {
  std::vector<std::string_view> out;
  for (size_t at = 0, n = 0; at < s.size(); at += n) {
    n = length_at(s, at);
    out.push_back(s.substr(at, n));
  }
  return out;
}

bool is_space(std::string_view s, size_t at, size_t& bytes) {
  bytes = length_at(s, at);
  return is_in(kSpaces, code_at(s, at, bytes));
}

std::string_view stripped(std::string_view s, Side side, const std::string* set) {
  const auto removed = [&](std::string_view c) {
    size_t bytes = 0;
    return set != nullptr ? std::string_view(*set).find(c) != std::string_view::npos
                          : is_space(c, 0, bytes);
  };
  size_t from = 0, to = s.size();
  while (side != Side::kRight && from < to) {
    const size_t n = length_at(s, from);
    if (!removed(s.substr(from, n))) break;
    from += n;
  }
  while (side != Side::kLeft && from < to) {
    size_t at = to - 1;
    // Bytes 10xxxxxx continue a character.
    while (at > from && (static_cast<unsigned char>(s[at]) & 0xc0) == 0x80) --at;
    if (at + length_at(s, at) != to) at = to - 1;
    if (!removed(s.substr(at, to - at))) break;
    to = at;
  }
  return s.substr(from, to - from);
}

std::string text_of_number(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  std::string s = fmt::format("{}", x);
  // Python marks a number as real: 1.0. Both use the shortest digits, and exponents outside
  // [1e-4, 1e16).
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

std::string representation(const Value& v) {
  if (v.text() != nullptr) return quoted(*v.text());
  if (v.is<Undefined>()) return "Undefined";
  return to_text(v);
}

std::string to_text(const Value& v) {
  if (const std::string* s = v.text()) return *s;
  if (v.is<Undefined>()) return "";
  if (v.is<None>()) return "None";
  if (const bool* b = v.as<bool>()) return *b ? "True" : "False";
  if (const int64_t* n = v.as<int64_t>()) return fmt::format("{}", *n);
  if (const double* x = v.as<double>()) return text_of_number(*x);
  if (const ListValue* list = v.elements()) return text_of_list(*list);
  if (const DictValue* dict = v.members()) {
    std::string out;
    for (const auto& [key, value] : dict->entries)
      out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", quoted(key), representation(value));
    return "{" + out + "}";
  }
  throw Fault{fmt::format("{} cannot be printed", kind_of(v))};
}

std::vector<size_t> slice_indices(int64_t size, const std::optional<int64_t>& start,
                                  const std::optional<int64_t>& stop, int64_t step) {
  if (step == 0) throw Fault{"the step of a slice is 0"};
  // Clamps an index to where a walk in the direction of the step may begin or end.
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto clamped = [&](int64_t i) {
    if (i < 0) i = i < -size ? -1 - size : i + size;
    return std::clamp(i, low, high);
  };
  const int64_t from = start ? clamped(*start) : (step > 0 ? low : high);
  const int64_t to = stop ? clamped(*stop) : (step > 0 ? high : low);
  std::vector<size_t> out;
  // The step is bounded by the size, so that the sum cannot overflow.
  const int64_t by = std::clamp(step, -size - 1, size + 1);
  for (int64_t i = from; step > 0 ? i < to : i > to; i += by) out.push_back(static_cast<size_t>(i));
  return out;
}

}  // namespace tessera::jinja

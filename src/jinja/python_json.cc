// Writes values as Python's json.dumps() does: separators with a space, no HTML escapes, characters
// outside ASCII as they are unless ensure_ascii is set.
//
// The text must be equal to that of transformers byte for byte, because it becomes part of the
// prompt, and a model that was trained on one spelling of a tool's schema should not see another.
// Reals use the shortest digits that read back as the same number, as Python does.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/error.h"
#include "base/utf8.h"
#include "jinja/python_text.h"

namespace tessera::jinja {
namespace {

void append_escaped(char32_t code, std::string& out) {
  if (code < 0x10000) {
    out += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
    return;
  }
  const uint32_t rest = code - 0x10000;
  out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
}

char32_t decoded(std::string_view c) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(c[i]); };
  if (c.size() == 1) return byte(0);
  char32_t code = byte(0) & (0xffu >> (c.size() + 1));
  for (size_t i = 1; i < c.size(); ++i) code = code << 6 | (byte(i) & 0x3fu);
  return code;
}

std::string in_quotes(const std::string& s, bool ascii) {
  std::string out = "\"";
  for (const std::string_view c : characters(s)) {
    switch (c[0]) {
      case '"':
        out += "\\\"";
        continue;
      case '\\':
        out += "\\\\";
        continue;
      case '\n':
        out += "\\n";
        continue;
      case '\r':
        out += "\\r";
        continue;
      case '\t':
        out += "\\t";
        continue;
      case '\f':
        out += "\\f";
        continue;
      case '\b':
        out += "\\b";
        continue;
      default:
        break;
    }
    const char32_t code = decoded(c);
    if (code < 0x20 || (ascii && code > 0x7e))
      append_escaped(code, out);
    else
      out += c;
  }
  return out + "\"";
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {
    item_ = style.indent ? "," : ", ";
    if (style.separators) std::tie(item_, key_) = *style.separators;
  }

  std::string write(const Value& v, int64_t level) const {
    if (v.is<None>()) return "null";
    if (const bool* b = v.as<bool>()) return *b ? "true" : "false";
    if (const int64_t* n = v.as<int64_t>()) return fmt::format("{}", *n);
    if (const double* x = v.as<double>()) return number(*x);
    if (const std::string* s = v.text()) return in_quotes(*s, style_.ensure_ascii);
    if (const DictValue* dict = v.members()) return object(*dict, level);
    const ListValue* list = v.elements();
    if (list == nullptr || list->kind == ListKind::kGenerator || list->kind == ListKind::kView)
      throw Fault{fmt::format("tojson cannot write {}", kind_of(v))};
    std::vector<std::string> items;
    for (const Value& e : list->items) items.push_back(write(e, level + 1));
    return joined('[', items, ']', level);
  }

 private:
  static std::string number(double x) {
    if (std::isnan(x)) return "NaN";
    if (std::isinf(x)) return x < 0 ? "-Infinity" : "Infinity";
    return text_of_number(x);
  }
  std::string object(const DictValue& dict, int64_t level) const {
    std::vector<const Entry*> order;
    for (const Entry& e : dict.entries) order.push_back(&e);
    if (style_.sort_keys)
      std::stable_sort(order.begin(), order.end(),
                       [](const Entry* a, const Entry* b) { return a->first < b->first; });
    std::vector<std::string> items;
    for (const Entry* e : order)
      items.push_back(in_quotes(e->first, style_.ensure_ascii) + key_ +
                      write(e->second, level + 1));
    return joined('{', items, '}', level);
  }
  std::string joined(char open, const std::vector<std::string>& items, char close,
                     int64_t level) const {
    std::string out(1, open);
    const auto line = [&](int64_t depth) {
      if (style_.indent) out += '\n' + std::string(*style_.indent * depth, ' ');
    };
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += item_;
      line(level + 1);
      out += items[i];
    }
    if (!items.empty()) line(level);
    return out + close;
  }

  const JsonStyle& style_;
  std::string item_, key_ = ": ";
};

}  // namespace

std::string json_text(const Value& v, const JsonStyle& style) {
  return JsonWriter(style).write(v, 0);
}

}  // namespace tessera::jinja

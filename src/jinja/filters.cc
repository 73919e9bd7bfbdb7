// Implements the filters of single values; filters_of_lists.cc has those of lists. Arguments are
// those of Jinja, except for `tojson`, which is that of transformers.
//
// A filter checks its arguments by itself (Arguments::only), so a misspelt keyword is an error as
// in Python. `safe` returns its text unchanged, because output is never escaped.
#include "jinja/filters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "jinja/arguments.h"
#include "jinja/methods.h"
#include "jinja/python_text.h"

namespace tessera::jinja {
namespace {

using V = const Value&;
using A = const Arguments&;

Value trim(V v, A a, Budget&) {
  a.only(1, {"chars"});
  return Value(std::string(stripped(to_text(v), Side::kBoth, a.text(0, "chars"))));
}

Value length_filter(V v, A a, Budget&) {
  a.only(0, {});
  return Value(length(v));
}

Value string_filter(V v, A a, Budget&) {
  a.only(0, {});
  return Value(to_text(v));
}

Value cased(V v, A a, Case to) {
  a.only(0, {});
  return Value(with_case(to_text(v), to));
}

Value default_filter(V v, A a, Budget&) {
  a.only(2, {"default_value", "boolean"});
  const bool replaced = v.is<Undefined>() || (a.flag(1, "boolean") && !truth(v));
  if (!replaced) return v;
  const Value* value = a.find(0, "default_value");
  return value != nullptr ? *value : Value(std::string());
}

Value to_json_filter(V v, A a, Budget& budget) {
  a.only(4, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = a.flag(0, "ensure_ascii");
  style.indent = a.integer(1, "indent");
  if (style.indent && (*style.indent < 0 || *style.indent > 64))
    throw Fault{fmt::format("the indent {} is outside 0 to 64", *style.indent)};
  style.sort_keys = a.flag(3, "sort_keys");
  const Value* separators = a.find(2, "separators");
  if (separators != nullptr && !separators->is<None>()) {
    const ListValue* two = separators->elements();
    if (two == nullptr || two->items.size() != 2 || two->items[0].text() == nullptr ||
        two->items[1].text() == nullptr)
      throw Fault{"'separators' needs two strings"};
    style.separators = {*two->items[0].text(), *two->items[1].text()};
  }
  std::string text = json_text(v, style);
  budget.bytes(std::ssize(text));
  return Value(std::move(text));
}

Value int_filter(V v, A a, Budget&) {
  a.only(1, {"default"});
  const Value* otherwise = a.find(0, "default");
  const Value fallback = otherwise != nullptr ? *otherwise : Value(int64_t{0});
  if (v.is_integer()) return Value(v.integer());
  if (const double* x = v.as<double>())
    return std::abs(*x) < 9e18 ? Value(static_cast<int64_t>(*x)) : fallback;
  if (v.text() == nullptr) return fallback;
  std::string_view s = stripped(*v.text());
  if (s.starts_with('+')) s.remove_prefix(1);
  double x = 0;
  const auto [end, status] = std::from_chars(s.data(), s.data() + s.size(), x);
  const bool number = status == std::errc() && end == s.data() + s.size();
  return number && std::abs(x) < 9e15 ? Value(static_cast<int64_t>(x)) : fallback;
}

Value float_filter(V v, A a, Budget&) {
  a.only(1, {"default"});
  const Value* otherwise = a.find(0, "default");
  const Value fallback = otherwise != nullptr ? *otherwise : Value(0.0);
  if (v.is_number()) return Value(v.number());
  if (v.text() == nullptr) return fallback;
  const std::string_view s = stripped(*v.text());
  double x = 0;
  const auto [end, status] = std::from_chars(s.data(), s.data() + s.size(), x);
  return status == std::errc() && end == s.data() + s.size() ? Value(x) : fallback;
}

Value abs_filter(V v, A a, Budget&) {
  a.only(0, {});
  if (!v.is_number()) throw Fault{fmt::format("abs of {}", kind_of(v))};
  if (v.is_integer() && v.integer() == INT64_MIN) throw Fault{"the integer does not fit 64 bits"};
  if (v.is_integer()) return Value(int64_t{v.integer() < 0 ? -v.integer() : v.integer()});
  return Value(std::abs(v.number()));
}

Value replace_filter(V v, A a, Budget& budget) {
  const Method method{std::make_shared<const Value>(to_text(v)), MethodName::kReplace};
  return call_method(method, a, budget);
}

// Adds `width` blanks (or a text) in front of each line but the first.
Value indent_filter(V v, A a, Budget& budget) {
  a.only(3, {"width", "first", "blank"});
  const Value* width = a.find(0, "width");
  std::string indent(4, ' ');
  if (width != nullptr && width->text() != nullptr)
    indent = *width->text();
  else if (width != nullptr)
    indent.assign(static_cast<size_t>(std::clamp<int64_t>(*a.integer(0, "width"), 0, 1000)), ' ');
  const std::string s = to_text(v);
  std::string out;
  bool first = true;
  for (size_t at = 0; at <= s.size(); first = false) {
    const size_t end = std::min(s.find('\n', at), s.size());
    const bool indented = first ? a.flag(1, "first") : end > at || a.flag(2, "blank");
    if (!first) out += '\n';
    if (indented) out += indent;
    out.append(s, at, end - at);
    budget.grow(std::ssize(out), static_cast<int64_t>(end - at + indent.size()));
    at = end + 1;
  }
  return Value(std::move(out));
}

constexpr std::array kFilters{
    NamedFilter{"trim", trim},
    NamedFilter{"length", length_filter},
    NamedFilter{"count", length_filter},
    NamedFilter{"string", string_filter},
    NamedFilter{"safe", string_filter},
    NamedFilter{"lower", [](V v, A a, Budget&) { return cased(v, a, Case::kLower); }},
    NamedFilter{"upper", [](V v, A a, Budget&) { return cased(v, a, Case::kUpper); }},
    NamedFilter{"title", [](V v, A a, Budget&) { return cased(v, a, Case::kWords); }},
    NamedFilter{"capitalize", [](V v, A a, Budget&) { return cased(v, a, Case::kCapitalized); }},
    NamedFilter{"default", default_filter},
    NamedFilter{"d", default_filter},
    NamedFilter{"tojson", to_json_filter},
    NamedFilter{"int", int_filter},
    NamedFilter{"float", float_filter},
    NamedFilter{"abs", abs_filter},
    NamedFilter{"replace", replace_filter},
    NamedFilter{"indent", indent_filter},
};

}  // namespace

Filter find_filter(std::string_view name) {
  for (const NamedFilter& f : kFilters)
    if (f.name == name) return f.filter;
  return find_list_filter(name);
}

}  // namespace tessera::jinja

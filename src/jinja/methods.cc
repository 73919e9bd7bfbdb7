// Implements the methods of Python's str and dict that do not change their object. Strings are
// UTF-8, and positions and counts are in code points as in Python: an offset that a search finds in
// bytes is converted. Splitting and replacing search bytes, which is exact, since no character of
// UTF-8 starts inside another one.
#include "jinja/methods.h"

#include <algorithm>
#include <array>

#include "jinja/arguments.h"
#include "jinja/python_text.h"

namespace tessera::jinja {
namespace {

struct NamedMethod {
  std::string_view name;
  MethodName method;
};
constexpr std::array kMethods{NamedMethod{"capitalize", MethodName::kCapitalize},
                              NamedMethod{"count", MethodName::kCount},
                              NamedMethod{"endswith", MethodName::kEndsWith},
                              NamedMethod{"find", MethodName::kFind},
                              NamedMethod{"isdigit", MethodName::kIsDigit},
                              NamedMethod{"join", MethodName::kJoin},
                              NamedMethod{"lower", MethodName::kLower},
                              NamedMethod{"lstrip", MethodName::kLstrip},
                              NamedMethod{"replace", MethodName::kReplace},
                              NamedMethod{"rsplit", MethodName::kRsplit},
                              NamedMethod{"rstrip", MethodName::kRstrip},
                              NamedMethod{"split", MethodName::kSplit},
                              NamedMethod{"splitlines", MethodName::kSplitLines},
                              NamedMethod{"startswith", MethodName::kStartsWith},
                              NamedMethod{"strip", MethodName::kStrip},
                              NamedMethod{"title", MethodName::kTitle},
                              NamedMethod{"upper", MethodName::kUpper},
                              NamedMethod{"get", MethodName::kGet},
                              NamedMethod{"items", MethodName::kItems},
                              NamedMethod{"keys", MethodName::kKeys},
                              NamedMethod{"values", MethodName::kValues}};

using Pieces = std::vector<std::string_view>;

// Splits at white space, which is removed at both ends too.
Pieces split_at_space(std::string_view s, int64_t most, Side from) {
  Pieces out;
  const auto space_at = [&](size_t at) {
    size_t bytes = 0;
    return is_space(s, at, bytes);
  };
  s = stripped(s, from);
  while (!s.empty() && (most < 0 || std::ssize(out) < most)) {
    size_t cut = std::string_view::npos;
    const size_t first = from == Side::kLeft ? 0 : s.size() - 1;
    for (size_t i = first; i < s.size() && cut == s.npos; from == Side::kLeft ? ++i : --i)
      if ((static_cast<unsigned char>(s[i]) & 0xc0) != 0x80 && space_at(i)) cut = i;
    if (cut == s.npos) break;
    size_t bytes = 0;
    is_space(s, cut, bytes);
    if (from == Side::kLeft) {
      out.push_back(s.substr(0, cut));
      s = stripped(s.substr(cut), Side::kLeft);
    } else {
      out.push_back(s.substr(cut + bytes));
      s = stripped(s.substr(0, cut), Side::kRight);
    }
  }
  if (!s.empty()) out.push_back(s);
  if (from == Side::kRight) std::reverse(out.begin(), out.end());
  return out;
}

Pieces split_at(std::string_view s, std::string_view at, int64_t most, Side from) {
  if (at.empty()) throw Fault{"the separator of split() is empty"};
  Pieces out;
  while (most < 0 || std::ssize(out) < most) {
    const size_t cut = from == Side::kLeft ? s.find(at) : s.rfind(at);
    if (cut == s.npos) break;
    const std::string_view before = s.substr(0, cut), after = s.substr(cut + at.size());
    out.push_back(from == Side::kLeft ? before : after);
    s = from == Side::kLeft ? after : before;
  }
  out.push_back(s);
  if (from == Side::kRight) std::reverse(out.begin(), out.end());
  return out;
}

Value list_of(const Pieces& pieces, Budget& budget) {
  budget.step(std::ssize(pieces));
  std::vector<Value> items;
  for (const std::string_view p : pieces) items.emplace_back(std::string(p));
  return Value::list(std::move(items));
}

Value split(const std::string& s, const Arguments& a, Side from, Budget& budget) {
  a.only(2, {"sep", "maxsplit"});
  const std::string* at = a.text(0, "sep");
  const int64_t most = a.integer(1, "maxsplit").value_or(-1);
  return list_of(at == nullptr ? split_at_space(s, most, from) : split_at(s, *at, most, from),
                 budget);
}

Value split_lines(const std::string& s, const Arguments& a, Budget& budget) {
  a.only(0, {});
  Pieces lines;
  const std::string_view text = s;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of("\n\r", at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + (text.substr(end).starts_with("\r\n") ? 2 : 1);
  }
  return list_of(lines, budget);
}

// startswith() and endswith(): with a text or a tuple of texts.
Value begins_or_ends(const std::string& s, const Arguments& a, bool begins) {
  a.only(1, {});
  const Value& what = a.required(0, "prefix");
  const auto has = [&](const Value& v) {
    if (v.text() == nullptr)
      throw Fault{fmt::format("the argument is {}, expected a string", kind_of(v))};
    return begins ? s.starts_with(*v.text()) : s.ends_with(*v.text());
  };
  if (const ListValue* list = what.elements())
    return Value(std::any_of(list->items.begin(), list->items.end(), has));
  return Value(has(what));
}

Value strip(const std::string& s, const Arguments& a, Side side) {
  a.only(1, {"chars"});
  return Value(std::string(stripped(s, side, a.text(0, "chars"))));
}

Value replace(const std::string& s, const Arguments& a, Budget& budget) {
  a.only(3, {"old", "new", "count"});
  const std::string *from = a.text(0, "old"), *to = a.text(1, "new");
  if (from == nullptr || to == nullptr) throw Fault{"replace() needs two strings"};
  int64_t left = a.integer(2, "count").value_or(-1);
  std::string out;
  size_t at = 0;
  // An empty text is found before each character and at the end.
  for (; left != 0; --left) {
    const size_t found = s.find(*from, at);
    if (found == s.npos) break;
    out.append(s, at, found - at).append(*to);
    budget.grow(std::ssize(out), static_cast<int64_t>(found - at + to->size()));
    budget.step();
    at = found + from->size();
    if (!from->empty()) continue;
    if (at >= s.size()) break;
    const size_t n = characters(std::string_view(s).substr(at, 4))[0].size();
    out.append(s, at, n);
    at += n;
  }
  return Value(out.append(s, std::min(at, s.size())));
}

Value join(const std::string& s, const Arguments& a, Budget& budget) {
  a.only(1, {});
  std::string out;
  const auto all = iterated(a.required(0, "iterable"));
  for (size_t i = 0; i < all->items.size(); ++i) {
    const std::string* part = all->items[i].text();
    if (part == nullptr) throw Fault{"join() needs a list of strings"};
    out += (i > 0 ? s : "") + *part;
    budget.grow(std::ssize(out), std::ssize(*part) + std::ssize(s));
  }
  return Value(std::move(out));
}

Value count(const std::string& s, const Arguments& a) {
  a.only(1, {});
  const std::string* what = a.text(0, "sub");
  if (what == nullptr || what->empty()) throw Fault{"count() needs a text that is not empty"};
  int64_t n = 0;
  for (size_t at = s.find(*what); at != s.npos; at = s.find(*what, at + what->size())) ++n;
  return Value(n);
}

Value find(const std::string& s, const Arguments& a) {
  a.only(1, {});
  const std::string* what = a.text(0, "sub");
  if (what == nullptr) throw Fault{"find() needs a string"};
  const size_t at = s.find(*what);
  if (at == s.npos) return Value(int64_t{-1});
  return Value(int64_t{std::ssize(characters(std::string_view(s).substr(0, at)))});
}

Value is_digit(const std::string& s, const Arguments& a) {
  a.only(0, {});
  return Value(!s.empty() &&
               std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; }));
}

Value call_text(const std::string& s, MethodName name, const Arguments& a, Budget& budget) {
  const auto cased = [&](Case to) {
    a.only(0, {});
    return Value(with_case(s, to));
  };
  switch (name) {
    case MethodName::kCapitalize:
      return cased(Case::kCapitalized);
    case MethodName::kLower:
      return cased(Case::kLower);
    case MethodName::kTitle:
      return cased(Case::kTitle);
    case MethodName::kUpper:
      return cased(Case::kUpper);
    case MethodName::kCount:
      return count(s, a);
    case MethodName::kEndsWith:
      return begins_or_ends(s, a, false);
    case MethodName::kStartsWith:
      return begins_or_ends(s, a, true);
    case MethodName::kFind:
      return find(s, a);
    case MethodName::kIsDigit:
      return is_digit(s, a);
    case MethodName::kJoin:
      return join(s, a, budget);
    case MethodName::kLstrip:
      return strip(s, a, Side::kLeft);
    case MethodName::kRstrip:
      return strip(s, a, Side::kRight);
    case MethodName::kStrip:
      return strip(s, a, Side::kBoth);
    case MethodName::kReplace:
      return replace(s, a, budget);
    case MethodName::kRsplit:
      return split(s, a, Side::kRight, budget);
    case MethodName::kSplit:
      return split(s, a, Side::kLeft, budget);
    case MethodName::kSplitLines:
      return split_lines(s, a, budget);
    case MethodName::kGet:
    case MethodName::kItems:
    case MethodName::kKeys:
    case MethodName::kValues:
      break;
  }
  throw Fault{"a string has no such method"};
}

Value call_dict(const DictValue& dict, MethodName name, const Arguments& a, Budget& budget) {
  budget.step(std::ssize(dict.entries));
  if (name == MethodName::kGet) {
    a.only(2, {});
    const std::string* key = a.required(0, "key").text();
    const Value* found = key != nullptr ? dict.find(*key) : nullptr;
    if (found != nullptr) return *found;
    const Value* otherwise = a.find(1, "default");
    return otherwise != nullptr ? *otherwise : Value(None{});
  }
  a.only(0, {});
  std::vector<Value> out;
  for (const auto& [key, value] : dict.entries) {
    if (name == MethodName::kItems)
      out.push_back(Value::list({Value(key), value}, ListKind::kTuple));
    else
      out.push_back(name == MethodName::kKeys ? Value(key) : value);
  }
  return Value::list(std::move(out), ListKind::kView);
}

}  // namespace

std::optional<MethodName> find_method(std::string_view name) {
  for (const NamedMethod& m : kMethods)
    if (m.name == name) return m.method;
  return std::nullopt;
}

bool has_method(const Value& object, MethodName name) {
  if (object.members() != nullptr) return name >= MethodName::kGet;
  return object.text() != nullptr && name < MethodName::kGet;
}

Value call_method(const Method& method, const Arguments& arguments, Budget& budget) {
  const Value& object = *method.object;
  if (const DictValue* dict = object.members())
    return call_dict(*dict, method.name, arguments, budget);
  budget.bytes(std::ssize(*object.text()));
  return call_text(*object.text(), method.name, arguments, budget);
}

}  // namespace tessera::jinja

// The tree of a parsed document, and its output as JSON (RFC 8259). The parsers are in tree_json.cc
// and tree_yaml.cc.
#include "base/tree.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/count.h"
#include "base/error.h"
#include "base/utf8.h"

namespace tessera {
namespace {

void append_json_string(std::string& out, std::string_view s) {
  out += '"';
  for (size_t i = 0; i < s.size();) {
    const size_t n = utf8_length(s, i);
    const char c = s[i];
    if (n == 0) {
      // RFC 8259 requires UTF-8, so a byte that is not UTF-8 becomes the replacement character.
      out += "\xef\xbf\xbd";  // U+FFFD
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7f) {
      // Control characters U+0000 to U+001F must be escaped in JSON. U+007F to U+009F (C1) need not
      // be, but terminals interpret them.
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else if (n == 2 && c == '\xc2' && static_cast<uint8_t>(s[i + 1]) < 0xa0) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<uint8_t>(s[i + 1])));
    } else {
      out += s.substr(i, n);
    }
    i += std::max<size_t>(n, 1);
  }
  out += '"';
}

void break_line(std::string& out, int indent, int depth) {
  if (indent == 0) return;
  out += '\n';
  out.append(indent * depth, ' ');
}

void append_json(std::string& out, const Tree& t, int indent, int depth) {
  const auto between = [&](bool first) {
    if (!first) out += ',';
    break_line(out, indent, depth + 1);
  };
  if (const auto* b = std::get_if<bool>(&t.value)) {
    out += *b ? "true" : "false";
  } else if (const auto* i = std::get_if<int64_t>(&t.value)) {
    out += fmt::format("{}", *i);
  } else if (const auto* d = std::get_if<double>(&t.value)) {
    // JSON has no NaN and no infinity.
    out += std::isfinite(*d) ? exact_text(*d) : "null";
  } else if (const auto* s = t.as_string()) {
    append_json_string(out, *s);
  } else if (const auto* list = t.as_list()) {
    out += '[';
    for (const Tree& e : *list) {
      between(&e == list->data());
      append_json(out, e, indent, depth + 1);
    }
    if (!list->empty()) break_line(out, indent, depth);
    out += ']';
  } else if (const auto* members = t.as_members()) {
    out += '{';
    for (const auto& m : *members) {
      between(&m == members->data());
      append_json_string(out, m.first);
      out += indent > 0 ? ": " : ":";
      append_json(out, m.second, indent, depth + 1);
    }
    if (!members->empty()) break_line(out, indent, depth);
    out += '}';
  } else {
    out += "null";
  }
}

}  // namespace

const Tree* Tree::find(std::string_view name) const {
  const Members* members = as_members();
  if (members == nullptr) return nullptr;
  const auto it = std::find_if(members->begin(), members->end(),
                               [&](const auto& m) { return m.first == name; });
  return it == members->end() ? nullptr : &it->second;
}

Tree& Tree::set(std::string_view name, Tree member) {
  if (is_null()) value = Members{};
  auto* members = std::get_if<Members>(&value);
  CHECK(members != nullptr, "member '{}' is set on a tree that is not an object", name);
  // Members keep their order, so the search is linear; objects here have few members.
  for (auto& m : *members)
    if (m.first == name) return m.second = std::move(member);
  return members->emplace_back(std::string(name), std::move(member)).second;
}

void Tree::push(Tree element) {
  if (is_null()) value = List{};
  auto* list = std::get_if<List>(&value);
  CHECK(list != nullptr, "an element is appended to a tree that is not a list");
  list->push_back(std::move(element));
}

std::string to_json(const Tree& t, int indent) {
  std::string out;
  append_json(out, t, indent, 0);
  return out;
}

std::optional<double> number_in(const Tree& tree) {
  if (const auto* whole = std::get_if<int64_t>(&tree.value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&tree.value)) return *real;
  return std::nullopt;
}

std::string text_or_empty(const Tree* tree) {
  const std::string* text = tree != nullptr ? tree->as_string() : nullptr;
  return text != nullptr ? *text : "";
}

std::string_view kind_of(const Tree& value) {
  constexpr std::array<std::string_view, 7> kKinds{
      "null", "true or false", "an integer", "a number", "a text", "a list", "an object"};
  return kKinds[value.value.index()];
}

std::string keys_of(const Tree& object) {
  std::string keys;
  for (const auto& [key, value] : *object.as_members())
    keys += (keys.empty() ? "'" : ", '") + key + "'";
  return keys.empty() ? "nothing" : keys;
}

}  // namespace tessera

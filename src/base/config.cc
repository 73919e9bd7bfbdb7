#include "base/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

// Doubles, hence JSON, hold every integer up to here; and sums of a few do not overflow.
constexpr double kExactIntegers = 0x1p53;

std::string describe(const Tree& t) {
  if (t.is_null()) return "nothing";
  if (const auto* b = std::get_if<bool>(&t.value)) return *b ? "true" : "false";
  if (const auto* s = t.as_string()) return fmt::format("the text '{}'", *s);
  if (t.as_list() != nullptr) return "a list";
  if (t.as_members() != nullptr) return "a group of keys";
  const auto* number = std::get_if<double>(&t.value);  // JSON has no such thing as NaN
  return "the number " + (number ? fmt::format("{}", *number) : to_json(t));
}

std::string place_of(const std::string& source, int line, int column) {
  return line == 0 ? source : fmt::format("{}:{}:{}", source, line, column);
}

std::string with_place(const std::string& at, const std::string& message) {
  return at.empty() ? message : at + ": " + message;
}

std::vector<std::string> split(std::string_view s, char separator) {
  std::vector<std::string> parts;
  for (size_t from = 0; from <= s.size();) {
    const size_t to = std::min(s.find(separator, from), s.size());
    parts.emplace_back(s.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

template <class T>
void read_list(const Tree& tree, std::vector<T>& value, const Place& place) {
  const Tree::List* list = tree.as_list();
  if (list == nullptr && (tree.is_null() || tree.as_members() != nullptr))
    wrong_value(tree, type_name(value), place);
  std::vector<T> out;
  const std::span<const Tree> elements = list != nullptr ? std::span(*list) : std::span(&tree, 1);
  for (const Tree& e : elements) read_value(e, out.emplace_back(), place);
  value = std::move(out);
}

// Finds the first leaf below an unknown key, so that the message can name what was meant.
const Tree& first_leaf(const Tree& t, std::string& path) {
  const Tree::Members* members = t.as_members();
  if (members == nullptr || members->empty()) return t;
  path += '.' + members->front().first;
  return first_leaf(members->front().second, path);
}

class Reader {
 public:
  Reader(std::span<const Field> fields, const std::string& source, Places& places)
      : fields_(fields), source_(source), places_(places) {}

  void read(const Tree& tree, const std::string& prefix) const {
    const Tree::Members* members = tree.as_members();
    if (members == nullptr) {
      if (tree.is_null()) return;
      throw Error("{}: {}found {}, wanted keys with values",
                  place_of(source_, tree.line, tree.column), prefix.empty() ? "" : prefix + ": ",
                  describe(tree));
    }
    for (const auto& [name, member] : *members)
      read_member(prefix.empty() ? name : prefix + '.' + name, member);
  }

 private:
  void read_member(const std::string& path, const Tree& member) const {
    const auto leaf = std::find_if(fields_.begin(), fields_.end(),
                                   [&](const Field& f) { return f.path == path; });
    if (leaf != fields_.end()) {
      const Place place{place_of(source_, member.line, member.column), path};
      leaf->read(member, place);
      places_[path] = place.at;
    } else if (std::any_of(fields_.begin(), fields_.end(),
                           [&](const Field& f) { return f.path.starts_with(path + '.'); })) {
      read(member, path);
    } else {
      std::string full = path;
      const Tree& at = first_leaf(member, full);
      find_field(fields_, full, place_of(source_, at.key_line, at.key_column));
    }
  }

  std::span<const Field> fields_;
  const std::string& source_;
  Places& places_;
};

void flatten(const Tree& t, const std::string& path, std::map<std::string, std::string>& out,
             std::vector<std::string>& order) {
  if (const Tree::Members* members = t.as_members(); members != nullptr && !members->empty()) {
    for (const auto& [name, member] : *members)
      flatten(member, path.empty() ? name : path + '.' + name, out, order);
    return;
  }
  const std::string* s = t.as_string();
  out[path] = s != nullptr ? *s : to_json(t);
  order.push_back(path);
}

}  // namespace

void wrong_value(const Tree& found, std::string_view wanted, const Place& place) {
  throw Error(with_place(
      place.at, fmt::format("{}: found {}, wanted {}", place.path, describe(found), wanted)));
}

void read_value(const Tree& tree, bool& value, const Place& place) {
  const auto* b = std::get_if<bool>(&tree.value);
  if (b == nullptr) wrong_value(tree, "true or false", place);
  value = *b;
}

void read_value(const Tree& tree, int64_t& value, const Place& place) {
  const auto* i = std::get_if<int64_t>(&tree.value);
  const auto* x = std::get_if<double>(&tree.value);
  if (i == nullptr && x == nullptr) wrong_value(tree, "an integer, in digits alone", place);
  const double size = i != nullptr ? static_cast<double>(*i) : *x;
  if (!(std::abs(size) <= kExactIntegers))
    wrong_value(tree, "an integer of at most 53 bits", place);
  if (size != std::trunc(size)) wrong_value(tree, "an integer", place);
  value = static_cast<int64_t>(size);
}

void read_value(const Tree& tree, double& value, const Place& place) {
  if (const auto* i = std::get_if<int64_t>(&tree.value)) {
    value = static_cast<double>(*i);
    return;
  }
  const auto* x = std::get_if<double>(&tree.value);
  if (x == nullptr) wrong_value(tree, "a number, such as 0.1 or 1e-3", place);
  if (!std::isfinite(*x)) wrong_value(tree, "a finite number", place);
  value = *x;
}

void read_value(const Tree& tree, std::string& value, const Place& place) {
  const std::string* s = tree.as_string();
  if (s == nullptr)
    wrong_value(tree,
                tree.is_null() || tree.as_list() != nullptr || tree.as_members() != nullptr
                    ? "a text"
                    : "a text (put it in quotes)",
                place);
  value = *s;
}

void read_value(const Tree& tree, std::vector<std::string>& value, const Place& place) {
  read_list(tree, value, place);
}

void read_value(const Tree& tree, std::vector<int64_t>& value, const Place& place) {
  read_list(tree, value, place);
}

int read_enum(const Tree& tree, std::string_view names, const Place& place) {
  const std::vector<std::string> entries = split(names, '|');
  const std::string wanted = fmt::format("one of {}", fmt::join(entries, ", "));
  const std::string* s = tree.as_string();
  if (s == nullptr) wrong_value(tree, wanted, place);
  const auto it = std::find(entries.begin(), entries.end(), *s);
  if (it == entries.end()) wrong_value(tree, wanted, place);
  return static_cast<int>(it - entries.begin());
}

Tree write_value(const std::vector<std::string>& x) {
  Tree t = Tree::list();
  for (const std::string& s : x) t.push(Tree(s));
  return t;
}

Tree write_value(const std::vector<int64_t>& x) {
  Tree t = Tree::list();
  for (const int64_t i : x) t.push(Tree(i));
  return t;
}

std::string enum_name(std::string_view names, int i) {
  const std::vector<std::string> entries = split(names, '|');
  CHECK(i >= 0 && static_cast<size_t>(i) < entries.size(), "entry {} of {}", i, names);
  return entries[static_cast<size_t>(i)];
}

void read_fields(std::span<const Field> fields, const Tree& tree, const std::string& source,
                 Places& places) {
  Reader(fields, source, places).read(tree, "");
}

Override parse_override(const std::string& argument) {
  const size_t equals = argument.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Error("command line: found '{}', wanted key=value, such as batch.micro=8", argument);
  return {argument.substr(0, equals), argument.substr(equals + 1)};
}

void read_override(std::span<const Field> fields, const Override& override, Places& places) {
  const std::string source = "command line";
  const auto leaf = std::find_if(fields.begin(), fields.end(),
                                 [&](const Field& f) { return f.path == override.path; });
  const std::string& text = override.text;
  const bool quoted = text.starts_with('"') || text.starts_with('\'');
  Tree value = leaf != fields.end() && leaf->text && !quoted
                   ? Tree(text)
                   : parse_yaml(text, fmt::format("{}: {}={}", source, override.path, text));
  if (leaf != fields.end()) {
    leaf->read(value, {source, override.path});
    places[override.path] = source;
    return;
  }
  if (value.is_null() || (value.as_members() && value.as_members()->empty()))
    throw Error(
        "{}: {}={} sets nothing and changes no key of {}. Expected a key and its value, such as "
        "{}.KEY=VALUE",
        source, override.path, text, override.path, override.path);
  Tree tree = std::move(value);  // a group: model={layers: 2, hidden: 8}
  for (const std::vector<std::string> names = split(override.path, '.');
       const std::string& name : std::vector(names.rbegin(), names.rend())) {
    Tree outer = Tree::object();
    outer.set(name, std::move(tree));
    tree = std::move(outer);
  }
  read_fields(fields, tree, source, places);
}

Tree write_fields(std::span<const Field> fields) {
  Tree root = Tree::object();
  for (const Field& f : fields) {
    Tree* at = &root;
    const std::vector<std::string> names = split(f.path, '.');
    for (size_t i = 0; i + 1 < names.size(); ++i) {
      const Tree* group = at->find(names[i]);
      at = group != nullptr ? const_cast<Tree*>(group) : &at->set(names[i], Tree::object());
    }
    at->set(names.back(), f.write());
  }
  return root;
}

std::vector<Change> differences(const Tree& before, const Tree& after) {
  std::map<std::string, std::string> old_values, new_values;
  std::vector<std::string> old_order, order;
  flatten(before, "", old_values, old_order);
  flatten(after, "", new_values, order);
  for (const std::string& path : old_order)
    if (!new_values.contains(path)) order.push_back(path);
  const auto value = [](const std::map<std::string, std::string>& values, const std::string& path) {
    const auto it = values.find(path);
    return it == values.end() ? std::string("(not given)") : it->second;
  };
  std::vector<Change> changes;
  for (const std::string& path : order) {
    Change c{path, value(old_values, path), value(new_values, path)};
    if (c.before != c.after) changes.push_back(std::move(c));
  }
  return changes;
}

}  // namespace tessera

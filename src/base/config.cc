// Reads, checks, prints and compares configurations by their list of fields (base/config.h). A
// field is found by its path, such as "optimizer.beta1". A document is traversed once, and every
// member is a leaf, a group that contains leaves, or an unknown key.
//
// A section describes itself once, as a list of fields with path, range and help text. Reading,
// printing, comparing, the documentation and the suggestions for misspelt keys are functions of
// that list, so a new key needs one line. Errors are collected, so a run file with three mistakes
// reports three.
#include "base/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/renamed_keys.h"

namespace tessera {
namespace {

std::string describe(const Tree& t) {
  if (t.is_null()) return "nothing";
  if (const auto* b = std::get_if<bool>(&t.value)) return *b ? "true" : "false";
  if (const auto* s = t.as_string()) return fmt::format("the text '{}'", *s);
  if (t.as_list() != nullptr) return "a list";
  if (t.as_members() != nullptr) return "a group of keys";
  const auto* number = std::get_if<double>(&t.value);  // to_json() would write NaN as null
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

// A single value is read as a list of one, as in `data.train: corpus.bin`.
template <class T>
void read_list(const Tree& tree, std::vector<T>& value, const SourceLocation& place) {
  const Tree::List* list = tree.as_list();
  if (list == nullptr && (tree.is_null() || tree.as_members() != nullptr))
    wrong_value(tree, type_name(value), place);
  std::vector<T> out;
  const std::span<const Tree> elements = list != nullptr ? std::span(*list) : std::span(&tree, 1);
  for (const Tree& e : elements) read_value(e, out.emplace_back(), place);
  value = std::move(out);
}

// Finds the first leaf below an unknown key, so that the message can suggest a known key.
const Tree& first_leaf(const Tree& t, std::string& path) {
  const Tree::Members* members = t.as_members();
  if (members == nullptr || members->empty()) return t;
  path += '.' + members->front().first;
  return first_leaf(members->front().second, path);
}

class Reader {
 public:
  Reader(std::span<const Field> fields, const std::string& source, SourceLocations& places)
      : fields_(fields), source_(source), places_(places) {}

  void read(const Tree& tree, const std::string& prefix) const {
    const Tree::Members* members = tree.as_members();
    if (members == nullptr) {
      if (tree.is_null()) return;
      throw Error("{}: {}found {}, expected keys with values",
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
      const SourceLocation place{place_of(source_, member.line, member.column), path};
      leaf->read(member, place);
      places_[path] = place.at;
    } else if (std::any_of(fields_.begin(), fields_.end(),
                           [&](const Field& f) { return f.path.starts_with(path + '.'); })) {
      read(member, path);
    } else {
      // find_field() cannot find this path, so it throws the error that names the nearest key.
      std::string full = path;
      const Tree& at = first_leaf(member, full);
      find_field(fields_, full, place_of(source_, at.key_line, at.key_column));
    }
  }

  std::span<const Field> fields_;
  const std::string& source_;
  SourceLocations& places_;
};

// Lists the leaves below `t` in the order of the document, each as text. An empty object counts as
// a leaf, so that differences() reports a group that became empty.
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

SourceLocation location_within(const SourceLocation& list, int line, int column) {
  const size_t last = list.at.rfind(':');
  const size_t file = last == std::string::npos ? last : list.at.rfind(':', last - 1);
  if (line == 0 || file == std::string::npos) return list;
  return {fmt::format("{}:{}:{}", list.at.substr(0, file), line, column), list.path};
}

void wrong_value(const Tree& found, std::string_view wanted, const SourceLocation& place) {
  throw Error(with_place(
      place.at, fmt::format("{}: found {}, expected {}", place.path, describe(found), wanted)));
}

void read_value(const Tree& tree, bool& value, const SourceLocation& place) {
  const auto* b = std::get_if<bool>(&tree.value);
  if (b == nullptr) wrong_value(tree, "true or false", place);
  value = *b;
}

void read_value(const Tree& tree, int64_t& value, const SourceLocation& place) {
  const auto* i = std::get_if<int64_t>(&tree.value);
  const auto* x = std::get_if<double>(&tree.value);
  // A number in 1e5 notation is a double in the tree. Up to 2^53 every integer has its own double,
  // so the value is exact; above it two integers could read as the same number.
  if (i == nullptr && x == nullptr) wrong_value(tree, "an integer (digits only)", place);
  constexpr auto kMost = static_cast<int64_t>(kExactIntegers);
  // A larger double may be the rounded value of another number.
  const bool fits = i != nullptr ? *i >= -kMost && *i <= kMost : std::abs(*x) < kExactIntegers;
  if (!fits)
    wrong_value(tree, fmt::format("an integer of at most 53 bits, {} to {}", -kMost, kMost), place);
  if (i == nullptr && *x != std::trunc(*x)) wrong_value(tree, "an integer", place);
  value = i != nullptr ? *i : static_cast<int64_t>(*x);
}

void read_value(const Tree& tree, double& value, const SourceLocation& place) {
  if (const auto* i = std::get_if<int64_t>(&tree.value)) {
    value = static_cast<double>(*i);
    return;
  }
  const auto* x = std::get_if<double>(&tree.value);
  if (x == nullptr) wrong_value(tree, "a number, such as 0.1 or 1e-3", place);
  if (!std::isfinite(*x)) wrong_value(tree, "a finite number", place);
  value = *x;
}

void read_value(const Tree& tree, std::string& value, const SourceLocation& place) {
  const std::string* s = tree.as_string();
  if (s == nullptr)
    wrong_value(tree,
                tree.is_null() || tree.as_list() != nullptr || tree.as_members() != nullptr
                    ? "a text"
                    : "a text (put it in quotes)",
                place);
  value = *s;
}

void read_value(const Tree& tree, std::vector<std::string>& value, const SourceLocation& place) {
  read_list(tree, value, place);
}

void read_value(const Tree& tree, std::vector<int64_t>& value, const SourceLocation& place) {
  read_list(tree, value, place);
}

void read_value(const Tree& tree, std::vector<double>& value, const SourceLocation& place) {
  read_list(tree, value, place);
}

int read_enum(const Tree& tree, std::string_view names, const SourceLocation& place) {
  const std::vector<std::string> entries = split(names, '|');
  const std::string wanted = fmt::format("one of {}", fmt::join(entries, ", "));
  const std::string* s = tree.as_string();
  if (s == nullptr) wrong_value(tree, wanted, place);
  const auto it = std::find(entries.begin(), entries.end(), *s);
  if (it == entries.end()) {
    const std::string present = renamed_value(place.path, *s);
    wrong_value(
        tree, present.empty() ? wanted : fmt::format("{} ('{}' is now '{}')", wanted, *s, present),
        place);
  }
  return static_cast<int>(it - entries.begin());
}

namespace {

template <class T>
Tree write_list(const std::vector<T>& x) {
  Tree t = Tree::list();
  for (const T& each : x) t.push(Tree(each));
  return t;
}

}  // namespace

Tree write_value(const std::vector<std::string>& x) { return write_list(x); }
Tree write_value(const std::vector<int64_t>& x) { return write_list(x); }
Tree write_value(const std::vector<double>& x) { return write_list(x); }

std::string enum_name(std::string_view names, int i) {
  const std::vector<std::string> entries = split(names, '|');
  CHECK(i >= 0 && static_cast<size_t>(i) < entries.size(), "entry {} of {}", i, names);
  return entries[i];
}

std::string text_of(const Range& r) {
  const std::string values = std::isinf(r.most)
                                 ? fmt::format("{:g} or more", r.least)
                                 : fmt::format("a value in [{:g}, {:g}]", r.least, r.most);
  return values + (r.or_zero ? ", or 0 to turn it off" : "");
}

void check_ranges(std::span<const Field> fields, KeyErrors& errors) {
  for (const Field& f : fields) {
    // Only numbers have bounded ranges.
    if (!f.range.bounded()) continue;
    const Tree written = f.write();
    const auto* integer = std::get_if<int64_t>(&written.value);
    const double x = integer ? static_cast<double>(*integer) : std::get<double>(written.value);
    if (!f.range.contains(x)) errors.add(f.path, "= {}, expected {}", x, text_of(f.range));
  }
}

void read_fields(std::span<const Field> fields, const Tree& tree, const std::string& source,
                 SourceLocations& places) {
  Reader(fields, source, places).read(tree, "");
}

Override parse_override(const std::string& argument) {
  const size_t equals = argument.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Error("command line: found '{}', expected key=value, such as batch.micro=8", argument);
  return {argument.substr(0, equals), argument.substr(equals + 1)};
}

namespace {

// Returns the index after the quoted text that begins at `at`, or npos if the quote is not closed.
size_t end_of_quoted(std::string_view text, size_t at) {
  const char quote = text[at];
  for (size_t i = at + 1; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      if (quote == '"' || i + 1 == text.size() || text[i + 1] != quote) return i + 1;
      ++i;  // '' within single quotes
    }
  }
  return text.npos;
}

// Returns the innermost bracket or quote that `text` opens and does not close, or '\0' if there is
// none. Inside plain text, brackets and quotes have no meaning.
char left_open(std::string_view text) {
  std::string open;
  bool begins = true;  // a value begins here
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (begins && (c == '"' || c == '\'')) {
      i = end_of_quoted(text, i);
      if (i == text.npos) return c;
      begins = false;
      continue;
    }
    const bool opens = begins && (c == '[' || c == '{');
    if (opens) open += c;
    if ((c == ']' || c == '}') && !open.empty()) {
      if ((open.back() == '[') != (c == ']')) return open.back();
      open.pop_back();
    }
    begins = opens || (!open.empty() && (c == ',' || c == ':')) || (begins && c == ' ');
    ++i;
  }
  return open.empty() ? '\0' : open.back();
}

}  // namespace

void read_override(std::span<const Field> fields, const Override& override,
                   SourceLocations& places) {
  const std::string source = "command line";
  const auto leaf = std::find_if(fields.begin(), fields.end(),
                                 [&](const Field& f) { return f.path == override.path; });
  // Text is not parsed as YAML, because a path or a name may contain characters that YAML
  // interprets, such as ": " or "#". A quoted text is parsed, for its escapes.
  const std::string& text = override.text;
  const bool quoted = text.starts_with('"') || text.starts_with('\'');
  const bool is_plain = leaf != fields.end() && leaf->text && !quoted;
  if (const char open = left_open(text); open != '\0' && !is_plain)
    throw Error(
        "{}: {}={}: '{}' is not closed. Close it, and put the argument in quotes, because the "
        "shell splits it at spaces.",
        source, override.path, text, open);
  Tree value = is_plain ? Tree(text)
                        : parse_yaml(text, fmt::format("{}: {}={}", source, override.path, text));
  if (leaf != fields.end()) {
    leaf->read(value, {source, override.path});
    places[override.path] = source;
    return;
  }
  if (value.is_null() || (value.as_members() && value.as_members()->empty()))
    throw Error(
        "{}: {}={} sets no key of {}. Expected a key and its value, such as "
        "{}.KEY=VALUE",
        source, override.path, text, override.path, override.path);
  Tree tree = std::move(value);  // a group: model={layers: 2, hidden: 8}
  // Wraps the group in one object per component of the path, from the innermost outward, so that it
  // is read and checked like a group in a file.
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
      // find() is const, but `root` is not, so the cast is safe.
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
  // The order of `after`, followed by the keys that only `before` has.
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

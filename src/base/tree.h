// A parsed YAML or JSON document as a tree with the location of each node, so that every reader can
// name file, line and column. The headers of the parsers are included only in tree_json.cc and
// tree_yaml.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tessera {

class Tree {
 public:
  using List = std::vector<Tree>;
  using Members = std::vector<std::pair<std::string, Tree>>;  // in the order of the document
  std::variant<std::monostate, bool, int64_t, double, std::string, List, Members> value;
  // Location of the value, counted from 1; 0 if unknown. Columns count characters, here and in
  // messages.
  int line = 0, column = 0;
  int key_line = 0, key_column = 0;  // location of the key, if the value is a member

  Tree() = default;
  template <class T>
  explicit Tree(T v) : value(std::move(v)) {}

  static Tree object() { return Tree(Members{}); }
  static Tree list() { return Tree(List{}); }

  bool is_null() const { return std::holds_alternative<std::monostate>(value); }
  const List* as_list() const { return std::get_if<List>(&value); }
  const Members* as_members() const { return std::get_if<Members>(&value); }
  const std::string* as_string() const { return std::get_if<std::string>(&value); }

  // Returns the member with that name, or nullptr if there is none or this is not an object.
  const Tree* find(std::string_view name) const;
  // Adds or replaces a member; a null becomes an object first.
  Tree& set(std::string_view name, Tree member);
  void push(Tree element);  // a null becomes a list first
};

// Parse a document. `source` names it in errors ("run.yaml:3:7: …"). Both throw Error with the
// location; duplicate keys in an object and nesting deeper than 256 are errors. Integers beyond
// int64 become doubles. YAML: a plain scalar is null, true, false, an integer, a number or else a
// string (1_000, yes and 0x10 are strings); a quoted scalar is always a string. Aliases, tags,
// several documents and keys of more than 128 bytes are errors. `first_line` is the line of the
// document at which `text` begins, if `text` is a part of it; locations refer to the document.
Tree parse_json(std::string_view text, const std::string& source, int first_line = 1);
Tree parse_yaml(std::string_view text, const std::string& source);
// Parses JSON Lines: one value per line. Empty lines are skipped.
std::vector<Tree> parse_json_lines(std::string_view text, const std::string& source);

// Returns the tree as JSON in one line without spaces after separators; with indent > 0, one member
// per line. Numbers round trip (shortest form); NaN and infinities, which JSON does not have,
// become null.
std::string to_json(const Tree& t, int indent = 0);
std::string to_yaml(const Tree& t);

// Returns the value of an integer or a real number, and nothing for other values. Some writers of
// JSON write 1.0 as 1, so a reader of real numbers must accept both.
std::optional<double> number_in(const Tree& tree);
// Returns the text of a value; empty if it is not a text, or nullptr.
std::string text_or_empty(const Tree* tree);

// Return the kind of a value, such as "an integer", and the keys of an object, such as "'a', 'b'"
// or "nothing", for messages.
std::string_view kind_of(const Tree& value);
std::string keys_of(const Tree& object);

}  // namespace tessera

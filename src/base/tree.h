// A parsed YAML or JSON document as a tree that knows where each node stood, so that every reader
// above it can name file, line and column. The parsers' own headers stay in tree_json.cc and
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
  // Of the value, from 1; 0 where unknown. Columns count characters, here and in messages.
  int line = 0, column = 0;
  int key_line = 0, key_column = 0;  // of its name, where it is a member

  Tree() = default;
  template <class T>
  explicit Tree(T v) : value(std::move(v)) {}

  static Tree object() { return Tree(Members{}); }
  static Tree list() { return Tree(List{}); }

  bool is_null() const { return std::holds_alternative<std::monostate>(value); }
  const List* as_list() const { return std::get_if<List>(&value); }
  const Members* as_members() const { return std::get_if<Members>(&value); }
  const std::string* as_string() const { return std::get_if<std::string>(&value); }

  // The member of that name, or nullptr (also where this is no object).
  const Tree* find(std::string_view name) const;
  // Adds or replaces a member; a null becomes an object first.
  Tree& set(std::string_view name, Tree member);
  void push(Tree element);  // a null becomes a list first
};

// `source` names the document in errors ("run.yaml:3:7: …"). Both throw Error with the place; a key
// that stands twice in one object is an error, and so is nesting deeper than 256. Integers beyond
// int64 become doubles. YAML: a plain scalar is null, true, false, an integer, a number or else a
// string (1_000, yes and 0x10 are strings); a quoted one is always a string. No aliases, no tags,
// one document, keys of at most 128 bytes. `first_line`: of the document, where `text` is a part of
// it; places are the document's.
Tree parse_json(std::string_view text, const std::string& source, int first_line = 1);
Tree parse_yaml(std::string_view text, const std::string& source);
// JSON, a value a line; empty lines are left out.
std::vector<Tree> parse_json_lines(std::string_view text, const std::string& source);

// One line without spaces after separators; indent > 0: one member a line. Numbers round trip
// (shortest form); NaN and infinities, which JSON cannot hold, become null.
std::string to_json(const Tree& t, int indent = 0);
std::string to_yaml(const Tree& t);

// Returns the value of an integer or of a real number, and nothing for other values. JSON writes
// 1.0 as 1, so a reader of real numbers must accept both.
std::optional<double> number_in(const Tree& tree);

}  // namespace tessera

// Typed access to the members of a parsed JSON object. Every failure names the file, line and
// column.
#include "checkpoint/tree_fields.h"

#include "base/error.h"

namespace tessera::checkpoint {

std::string place_of(const std::string& source, const Tree& node) {
  if (node.line == 0) return source;
  return fmt::format("{}:{}:{}", source, node.line, node.column);
}

const Tree& member(const Tree& object, std::string_view name, const std::string& source) {
  if (!object.as_members())
    throw Error("{}: found {}, expected an object with '{}'", place_of(source, object),
                kind_of(object), name);
  if (const Tree* found = object.find(name)) return *found;
  throw Error("{}: this object has no '{}'", place_of(source, object), name);
}

namespace {

[[noreturn]] void wrong_kind(const Tree& found, std::string_view name, std::string_view wanted,
                             const std::string& source) {
  throw Error("{}: '{}' is {}, expected {}", place_of(source, found), name, kind_of(found), wanted);
}

}  // namespace

int64_t integer_member(const Tree& object, std::string_view name, const std::string& source) {
  const Tree& found = member(object, name, source);
  if (const auto* i = std::get_if<int64_t>(&found.value)) return *i;
  wrong_kind(found, name, "an integer", source);
}

const std::string& text_of(const Tree& node, std::string_view name, const std::string& source) {
  if (const auto* s = node.as_string()) return *s;
  wrong_kind(node, name, "text", source);
}

const std::string& text_member(const Tree& object, std::string_view name,
                               const std::string& source) {
  return text_of(member(object, name, source), name, source);
}

const Tree::List& list_member(const Tree& object, std::string_view name,
                              const std::string& source) {
  const Tree& found = member(object, name, source);
  if (const auto* l = found.as_list()) return *l;
  wrong_kind(found, name, "a list", source);
}

std::vector<int64_t> extents_member(const Tree& object, std::string_view name,
                                    const std::string& source) {
  std::vector<int64_t> extents;
  for (const Tree& element : list_member(object, name, source)) {
    const auto* i = std::get_if<int64_t>(&element.value);
    if (!i || *i < 0) wrong_kind(element, name, "a list of integers that are not negative", source);
    extents.push_back(*i);
  }
  return extents;
}

Tree integer_list(const std::vector<int64_t>& values) {
  Tree list = Tree::list();
  for (const int64_t v : values) list.push(Tree(v));
  return list;
}

}  // namespace tessera::checkpoint

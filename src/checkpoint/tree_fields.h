// Reads required members of a JSON object, with errors that name file, line and column.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/tree.h"

namespace tessera::checkpoint {

// Returns "source:line:column" of a node, or only the source if the line is unknown.
std::string place_of(const std::string& source, const Tree& node);

// Each returns the member `name` of an object, converted to the function's type. Throws Error with
// the source location, what was found and what was expected.
const Tree& member(const Tree& object, std::string_view name, const std::string& source);
int64_t integer_member(const Tree& object, std::string_view name, const std::string& source);
const std::string& text_member(const Tree& object, std::string_view name,
                               const std::string& source);
const Tree::List& list_member(const Tree& object, std::string_view name, const std::string& source);
// Requires a list of integers >= 0.
std::vector<int64_t> extents_member(const Tree& object, std::string_view name,
                                    const std::string& source);

// Returns the text of the node itself; `name` is its name in the error.
const std::string& text_of(const Tree& node, std::string_view name, const std::string& source);

// Returns a list of the integers.
Tree integer_list(const std::vector<int64_t>& values);

}  // namespace tessera::checkpoint

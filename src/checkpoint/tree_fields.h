// Reading members of a JSON object that must be there, with errors that name the place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/tree.h"

namespace tessera::checkpoint {

// "source:line:column" of a node, as far as it is known.
std::string place_of(const std::string& source, const Tree& node);

// The member `name` of an object, of the type asked for. Each throws Error naming source, place,
// what was found and what was wanted.
const Tree& member(const Tree& object, std::string_view name, const std::string& source);
int64_t integer_member(const Tree& object, std::string_view name, const std::string& source);
const std::string& text_member(const Tree& object, std::string_view name,
                               const std::string& source);
const Tree::List& list_member(const Tree& object, std::string_view name, const std::string& source);
// Integers >= 0.
std::vector<int64_t> extents_member(const Tree& object, std::string_view name,
                                    const std::string& source);

// The node itself, as text; `name` is what it is called in the error.
const std::string& text_of(const Tree& node, std::string_view name, const std::string& source);

// "an integer", "text", …: for messages.
std::string_view kind_of(const Tree& node);

}  // namespace tessera::checkpoint

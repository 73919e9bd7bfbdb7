// Filters and tests, by name.
#pragma once

#include <string_view>

#include "jinja/syntax.h"

namespace tessera::jinja {

// Return the filter or test of that name; nullptr: not supported.
Filter find_filter(std::string_view name);
TestFunction find_test(std::string_view name);

// Return true if a filter's argument names another filter (map) or a test (select, reject), and set
// the position of that argument.
bool names_filter(Filter filter);
bool names_test(Filter filter, size_t& position);

// ---- Filters of filters_of_lists.cc.

struct NamedFilter {
  std::string_view name;
  Filter filter;
};
// Returns the filter of that name among those that work on lists and dictionaries, or nullptr.
Filter find_list_filter(std::string_view name);

// Returns an attribute as the filters `map`, `sort` and others read it: a.b.0 is a path.
Value attribute_path(const Value& v, const Value& path);

}  // namespace tessera::jinja

// Patterns for names of weights, in which '*' matches any text: optimizer.freeze, optimizer.groups
// and lora.targets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::compile {

// Returns true if the name matches the pattern, or any of the patterns.
bool matches(std::string_view pattern, std::string_view name);
bool matches_any(const std::vector<std::string>& patterns, std::string_view name);

// Throws Error, which names `key` and lists similar names, if a pattern matches none of `names`:
// the names of all objects of type `kind` ("weight").
void require_matches(std::string_view key, const std::vector<std::string>& patterns,
                     std::string_view kind, const std::vector<std::string>& names);

}  // namespace tessera::compile

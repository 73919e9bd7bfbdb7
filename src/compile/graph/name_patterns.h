// Patterns of weights' names, in which '*' is any text: optimizer.freeze, optimizer.groups and
// lora.targets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::compile {

// Returns whether a name is that of a pattern.
bool matches(std::string_view pattern, std::string_view name);
bool matches_any(const std::vector<std::string>& patterns, std::string_view name);

// Throws Error that names `key` and lists near names if a pattern matches none of `names`, which
// are the names of every `kind` ("weight").
void require_matches(std::string_view key, const std::vector<std::string>& patterns,
                     std::string_view kind, const std::vector<std::string>& names);

}  // namespace tessera::compile

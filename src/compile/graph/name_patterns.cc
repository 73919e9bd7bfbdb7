// Matching of names with patterns in time proportional to the product of their lengths, and the
// name that a pattern without a match may have meant.
#include "compile/graph/name_patterns.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/config.h"
#include "base/error.h"

namespace tessera::compile {
namespace {

bool none_matches(const std::string& pattern, const std::vector<std::string>& names) {
  return std::none_of(names.begin(), names.end(),
                      [&](const std::string& name) { return matches(pattern, name); });
}

// Returns a suggestion for a pattern that matches none of `names`, and the list of names. A name
// covers all layers, so a layer number in the pattern is a common mistake.
std::string meant(const std::string& pattern, const std::vector<std::string>& names) {
  std::string of_all = pattern, core = pattern;
  std::erase_if(of_all, [](char c) { return c >= '0' && c <= '9'; });
  std::erase(core, '*');
  const auto has_core = [&](const std::string& name) { return name.find(core) != name.npos; };
  std::string guess = none_matches(of_all, names) ? nearest(core, names) : of_all;
  if (guess.empty() && std::any_of(names.begin(), names.end(), has_core)) guess = "*" + core + "*";
  return fmt::format("{}There are: {}.",
                     guess.empty() ? "" : fmt::format("Did you mean '{}'? ", guess),
                     fmt::join(names, ", "));
}

}  // namespace

// Each part between two stars is matched at its first occurrence, since a later one leaves fewer
// characters for the parts after it. So the time is at most proportional to the product of the
// lengths.
bool matches(std::string_view pattern, std::string_view name) {
  const size_t first = pattern.find('*');
  if (first == pattern.npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, first))) return false;
  name.remove_prefix(first);
  pattern.remove_prefix(first + 1);
  for (size_t star; (star = pattern.find('*')) != pattern.npos; pattern.remove_prefix(star + 1)) {
    const size_t found = name.find(pattern.substr(0, star));
    if (found == name.npos) return false;
    name.remove_prefix(found + star);
  }
  return name.ends_with(pattern);
}

bool matches_any(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& p) { return matches(p, name); });
}

void require_matches(std::string_view key, const std::vector<std::string>& patterns,
                     std::string_view kind, const std::vector<std::string>& names) {
  for (const std::string& p : patterns)
    if (none_matches(p, names))
      throw Error("{} has '{}', which does not name a {}. {}", key, p, kind, meant(p, names));
}

}  // namespace tessera::compile

// Spelling suggestions: finds the known key that is nearest to a mistyped one, by edit distance
// with discounts for the ways in which people shorten or misplace keys.
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/config.h"
#include "base/renamed_keys.h"

namespace tessera {
namespace {

// Returns the Levenshtein distance: the minimum number of insertions, deletions and replacements
// that turn `a` into `b`. Stores one row of the dynamic program: O(|a|·|b|) time, O(|b|) memory.
int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i) + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      // Here row[j + 1] is still the cost in the row above, and `diagonal` is the cost left of
      // that.
      const int changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, changed});
    }
  }
  return row.back();
}

std::string initials(std::string_view name) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i)
    if (i == 0 || name[i - 1] == '_' || name[i - 1] == '.') out += name[i];
  return out;
}

bool is_subsequence(std::string_view a, std::string_view of) {
  size_t i = 0;
  for (const char c : of) i += i < a.size() && a[i] == c ? 1 : 0;
  return i == a.size();
}

// Returns the distance between a typed name and a known one. An abbreviation costs at most 1 or 2:
// the initials ("lr" for learning_rate), a prefix or suffix, or letters in order ("wrmp" for
// warmup).
int name_distance(std::string_view typed, std::string_view known) {
  int d = edit_distance(typed, known);
  if (typed.size() >= 2 && initials(known) == typed) d = std::min(d, 1);
  if (typed.size() >= 3 && (known.starts_with(typed) || known.ends_with(typed))) d = std::min(d, 1);
  if (typed.size() >= 3 && typed[0] == known[0] && is_subsequence(typed, known)) d = std::min(d, 2);
  return d;
}

std::pair<std::string_view, std::string_view> section_and_leaf(std::string_view path) {
  const size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

// Returns the distance between two paths. A wrong or missing section costs little if the leaf is
// correct: keys move between sections, and people omit the section.
int path_distance(std::string_view typed, std::string_view known) {
  constexpr int kMoved = 3;
  const auto [typed_section, typed_leaf] = section_and_leaf(typed);
  const auto [section, leaf] = section_and_leaf(known);
  const int moved = typed_section.empty() ? 1 : kMoved;
  const int parts =
      name_distance(typed_leaf, leaf) + std::min(moved, name_distance(typed_section, section));
  return std::min(parts, edit_distance(typed, known));
}

// Returns the largest accepted distance: half of the letters, at least 2. Beyond that a suggestion
// would mislead.
int tolerance(std::string_view typed) {
  return std::max(2, static_cast<int>(section_and_leaf(typed).second.size()) / 2);
}

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find_first_of("_.-", at), name.size());
    if (end > at) parts.push_back(name.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// Returns true if one of `parts` is `part`, a misspelling of it, or one is short for the other.
bool has_similar(const std::vector<std::string_view>& parts, std::string_view part) {
  constexpr size_t kShort = 3;  // letters of an abbreviation
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view other) {
    const size_t fewer = std::min(part.size(), other.size());
    const bool is_short = fewer >= kShort && (part.starts_with(other) || other.starts_with(part));
    const int most = std::max(1, static_cast<int>(fewer) / 3);
    return is_short || edit_distance(part, other) <= most;
  });
}

// Returns true if the typed name can be an attempt at the known one, and is not another name that
// shares a part with it: loss_type is not rope_type, tokens is not keep_every_tokens. Every part of
// the typed name between '_' is then similar to one of the known path, and most parts of the known
// name to one of the typed path.
bool is_plausible(std::string_view typed_path, std::string_view known_path) {
  constexpr int kTypo = 2;
  const std::string_view typed = section_and_leaf(typed_path).second,
                         known = section_and_leaf(known_path).second;
  const bool is_abbreviation =
      initials(known) == typed || known.starts_with(typed) ||
      (!typed.empty() && typed[0] == known[0] && is_subsequence(typed, known));
  if (is_abbreviation || edit_distance(typed, known) <= std::min(kTypo, tolerance(typed)))
    return true;
  const auto of_known = parts_of(known_path), of_typed = parts_of(typed_path);
  for (const std::string_view part : parts_of(typed))
    if (!has_similar(of_known, part)) return false;
  const std::vector<std::string_view> own = parts_of(known);
  const auto similar = std::ranges::count_if(
      own, [&](std::string_view part) { return has_similar(of_typed, part); });
  return 2 * similar > std::ssize(own);
}

// Returns the advice for an old name of one of the fields, whose paths may lack the section, as in
// an element of optimizer.groups.
std::string renamed_here(std::string_view path, std::span<const std::string> paths) {
  const auto is_field = [&](std::string_view p) {
    return std::find(paths.begin(), paths.end(), p) != paths.end();
  };
  if (const std::string present = renamed_path(path); is_field(present))
    return renamed_advice(path);
  const std::string prefix = "optimizer.";
  const std::string present = renamed_path(prefix + std::string(path));
  if (present.empty() || !is_field(present.substr(prefix.size()))) return {};
  return present.substr(prefix.size());
}

}  // namespace

std::string nearest(std::string_view typed, std::span<const std::string> names) {
  constexpr size_t kLongestTyped = 256;  // longer names are not typos, and distances take time
  if (typed.size() > kLongestTyped) return {};
  int least = tolerance(typed) + 1;
  std::string best;
  for (const std::string& name : names) {
    const int d = path_distance(typed, name);
    // If several names are equally near, the first one wins.
    if (d < least && is_plausible(typed, name)) {
      least = d;
      best = name;
    }
  }
  return best;
}

const Field& find_field(std::span<const Field> fields, std::string_view path,
                        const std::string& at) {
  constexpr size_t kFewKeys = 32;  // run files have more keys, other configurations fewer
  std::vector<std::string> paths, of_section;
  const std::string section = std::string(section_and_leaf(path).first) + '.';
  for (const Field& f : fields) {
    if (f.path == path) return f;
    paths.push_back(f.path);
    if (f.path.starts_with(section)) of_section.push_back(f.path.substr(section.size()));
  }
  if (const std::string present = renamed_here(path, paths); !present.empty())
    throw Error("{}{}unknown key '{}' (renamed): use {}", at, at.empty() ? "" : ": ", path,
                present);
  const std::string guess = nearest(path, paths);
  const std::string advice =
      !guess.empty() ? fmt::format("Did you mean '{}'?", guess)
      : !of_section.empty()
          ? fmt::format("Known in '{}': {}", section.substr(0, section.size() - 1),
                        fmt::join(of_section, ", "))
      : fields.size() <= kFewKeys ? fmt::format("Known: {}", fmt::join(paths, ", "))
                                  : std::string("All keys: tessera config explain");
  throw Error("{}{}unknown key '{}'. {}", at, at.empty() ? "" : ": ", path, advice);
}

}  // namespace tessera

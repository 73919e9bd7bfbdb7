// Prints and parses groups of ranks.
#include "ir/group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "ir/names.h"

namespace tessera {
namespace {

constexpr std::string_view kWorldName = "world", kStagesPrefix = "stages:";

// Splits a text at a separator, and calls `take(part)` for each part until it returns false. Then
// returns false.
template <class Take>
bool each_part(std::string_view text, char separator, const Take& take) {
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    if (!take(text.substr(at, end - at))) return false;
    at = end + 1;
  }
  return true;
}

}  // namespace

GroupRef GroupRef::along(std::initializer_list<AxisKind> axes) {
  GroupRef g;
  for (const AxisKind a : axes) g.add(a);
  return g;
}

GroupRef GroupRef::of_stages(std::vector<int64_t> stages) {
  return {Kind::kStages, 0, std::move(stages)};
}

GroupRef GroupRef::world() { return {Kind::kWorld, 0, {}}; }

std::string to_string(const GroupRef& group) {
  if (group.kind == GroupRef::Kind::kWorld) return std::string(kWorldName);
  if (group.kind == GroupRef::Kind::kStages)
    return fmt::format("{}{}", kStagesPrefix, fmt::join(group.stages, ","));
  std::string text;
  for (const AxisKind axis : Enumerators<AxisKind>())
    if (group.has(axis)) text += fmt::format("{}{}", text.empty() ? "" : "+", name_of(axis));
  return text;
}

// Parses what to_string() returns: an empty text, "world", stages after their prefix, or axes
// joined by '+'. If any part is invalid, the whole text is.
std::optional<GroupRef> group_named(std::string_view text) {
  GroupRef group;
  if (text.empty()) return group;
  if (text == kWorldName) return GroupRef::world();
  bool good = false;
  if (text.starts_with(kStagesPrefix)) {
    group.kind = GroupRef::Kind::kStages;
    good = each_part(text.substr(kStagesPrefix.size()), ',', [&](std::string_view digits) {
      const char* const end = digits.data() + digits.size();
      const auto [stop, error] = std::from_chars(digits.data(), end, group.stages.emplace_back());
      return error == std::errc() && stop == end && group.stages.back() >= 0;
    });
  } else {
    good = each_part(text, '+', [&](std::string_view name) {
      const auto axis = axis_named(name);
      if (axis) group.add(*axis);
      return axis.has_value();
    });
  }
  return good ? std::optional(group) : std::nullopt;
}

}  // namespace tessera

// Groups of ranks in terms of the mesh: the ranks that take part in a collective. A program serves
// all ranks of a stage, so a group is described relative to the rank that runs it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/value.h"

namespace tessera {

// The group of a rank. By default there is none.
struct GroupRef {
  enum class Kind : uint8_t {
    kAxes,    // the ranks that differ from it only along these axes
    kStages,  // its counterparts on these stages, which agree with it along all other axes
    kWorld,   // all ranks
  };
  Kind kind = Kind::kAxes;
  uint8_t axes = 0;  // one bit for each AxisKind
  std::vector<int64_t> stages;

  static GroupRef along(std::initializer_list<AxisKind> axes);
  static GroupRef of_stages(std::vector<int64_t> stages);
  static GroupRef world();

  bool empty() const { return kind == Kind::kAxes && axes == 0; }
  // Returns true for a group along that axis, perhaps among others.
  bool has(AxisKind a) const { return kind == Kind::kAxes && (axes & bit(a)) != 0; }
  void add(AxisKind a) { axes |= bit(a); }
  static constexpr uint8_t bit(AxisKind a) {
    return static_cast<uint8_t>(1 << static_cast<int>(a));
  }
  auto operator<=>(const GroupRef&) const = default;
};
static_assert(count_of(AxisKind()) <= 8);

// "tensor", "replica+tensor" (axes, outermost first), "stages:0,3", "world"; empty for no group.
std::string to_string(const GroupRef& group);
// Parses to_string(); returns nothing for any other text.
std::optional<GroupRef> group_named(std::string_view text);

}  // namespace tessera

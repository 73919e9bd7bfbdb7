// Words of the printed text that enums have.
#pragma once

#include <optional>
#include <string_view>

#include "ir/program.h"

namespace tessera {

std::string_view name_of(Queue q);
std::string_view name_of(Access a);
std::string_view name_of(AxisKind a);
// shared, partial, partial_max or replicated; none for a split.
std::optional<std::string_view> name_of_place(int8_t place);

// Nothing where no entry has that name.
std::optional<Queue> queue_named(std::string_view s);
std::optional<Access> access_named(std::string_view s);
std::optional<AxisKind> axis_named(std::string_view s);
std::optional<int8_t> place_named(std::string_view s);
std::optional<Role> role_named(std::string_view s);

}  // namespace tessera

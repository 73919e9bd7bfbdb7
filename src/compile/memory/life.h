// A time during which bytes of the arena are in use.
#pragma once

#include <cstdint>

namespace tessera {

// A time in the arena, as closed interval of positions in the schedule, and its place.
struct Life {
  int64_t birth = 0, death = 0, bytes = 0;
  int64_t offset = 0;
};

}  // namespace tessera

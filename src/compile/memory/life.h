// A time during which bytes of the arena are in use.
#pragma once

#include <cstdint>

namespace tessera {

// The lifetime of a buffer: a closed interval of schedule positions, and its arena offset.
struct Life {
  int64_t birth = 0, death = 0, bytes = 0;
  int64_t offset = 0;
};

}  // namespace tessera

// Where the frames of a program lie: in the arena, and those of host kinds in memory of the host,
// whose offsets count on from the arena's end.
#pragma once

#include "ir/program.h"

namespace tessera {

struct Arenas {
  std::byte *arena = nullptr, *host = nullptr;

  std::byte* frame(const Program& p, FrameId f) const {
    const int64_t offset = p.frame(f).offset;
    return p.kind(p.frame(f).kind).host ? host + (offset - p.bytes) : arena + offset;
  }
};

}  // namespace tessera

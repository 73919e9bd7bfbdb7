// For how long nobody touches a frame: where its bytes could do without it.
#pragma once

#include <vector>

#include "ir/program.h"

namespace tessera {

struct Pause {
  CallId last, next;      // the touches before and after it
  int64_t calls = kNone;  // of computation between them; kNone: there is no pause
};

// Of each frame the longest time, counted in calls of computation, between two touches that follow
// each other, of which the second reads; the first of several.
IdVector<FrameId, Pause> longest_pauses(const Program& p);

}  // namespace tessera

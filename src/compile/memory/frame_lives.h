// When frames are born and die, as positions of the schedule: what pack() takes.
#pragma once

#include <vector>

#include "compile/memory/pack.h"
#include "ir/program.h"

namespace tessera::compile {

// The frames that move, in the arena or in the host's.
std::vector<FrameId> moving_frames(const Program& p, bool host);

// Of each of the frames, from its first toucher to its last; every frame is touched.
std::vector<Life> lives_of(const Program& p, const std::vector<FrameId>& frames);

// The largest set of bytes that is alive at one call, its scratch included: a lower bound of the
// arena. Every frame that moves is touched.
int64_t live_bytes(const Program& p);

// Leaves another queue time to start early or end late before the bytes are used again: a life that
// another queue begins or ends is `pad` calls of computation longer there.
void stretch(const Program& p, int pad, std::vector<Life>& lives);

}  // namespace tessera::compile

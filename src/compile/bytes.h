// Which frames and scratch regions of a program share bytes.
#pragma once

#include <vector>

#include "ir/program.h"

namespace tessera {

// Of each frame, all that share bytes with it, itself first.
std::vector<std::vector<FrameId>> sharing_frames(const Program& p);

// The frames that share bytes with [offset, offset + bytes).
std::vector<FrameId> frames_in(const Program& p, int64_t offset, int64_t bytes);

}  // namespace tessera

// Schedule pass: life times → offsets, `fresh`, `after`.
//
// Before: frames have kinds, layers and micro-batches but no offset; calls stand in issue order and
//   name their frames.
// After:  every frame has an offset in one arena, every call knows which of its frames it adds to
//   first (`fresh`) and which calls of other queues it waits for (`after`, `before_step`).
#pragma once

#include "ir/program.h"

namespace tessera::compile {

struct PlaceOptions {
  int64_t alignment = 64;  // bytes
  int pad = 1;             // compute calls a frame touched by another queue lives longer
};

// State frames (Frame::state) of the arena must already have offsets in [0, state_bytes). Above
// them, at scratch_offset, stands a region of scratch for each queue, as large as its largest
// segment's. All other frames are packed from there on too (pack.h), clear of the scratch of the
// calls in their lives: a frame may use the end of a region while only calls run that need less of
// it. Frames of host kinds are packed by themselves, behind the end of the arena, state first. Sets
// bytes, host_bytes and live_bytes (the largest live set of the arena, the lower bound of bytes).
void place(Program& program, const PlaceOptions& options);

}  // namespace tessera::compile

// Buffer assignment (schedule pass): derives offsets from lifetimes, and `first_write` and `after`
// of calls.
//
// Before: buffers have kinds, layers and micro-batches but no offsets; calls are in issue order and
//   name their buffers.
// After:  every buffer has an offset in one arena, and every call states which of its buffers it
//   writes instead of adding to them (`first_write`) and which calls of other queues it waits for
//   (`after`, `before_step`).
#pragma once

#include "ir/program.h"

namespace tessera::compile {

struct BufferAssignmentOptions {
  int64_t alignment = 64;  // bytes
  int pad = 1;             // compute calls by which the lifetime of a buffer used by another queue
                           // is extended
};

// State buffers (Buffer::state) of the arena must already have offsets in [0, state_bytes). Above
// them, at scratch_offset, each queue has a region of scratch, as large as its largest segment
// needs. All other buffers are packed from there on (pack.h) and do not overlap the scratch of
// calls within their lifetimes: a buffer may use the end of a region while only calls that need
// less of it run. Buffers of host kinds are packed separately, after the end of the arena, state
// first. Sets bytes, host_bytes and live_bytes (the most bytes alive in the arena at one call, the
// lower bound of bytes).
void assign_buffers(Program& program, const BufferAssignmentOptions& options);

}  // namespace tessera::compile

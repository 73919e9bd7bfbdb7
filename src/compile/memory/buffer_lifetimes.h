// Lifetimes of buffers as positions in the schedule: the input of pack().
#pragma once

#include <vector>

#include "compile/memory/pack.h"
#include "ir/program.h"

namespace tessera::compile {

// Returns the buffers that are not state, in the arena or, with `host`, in the host arena.
std::vector<BufferId> moving_buffers(const Program& p, bool host);

// Returns the lifetime of each of the buffers, from the first call that uses it to the last. Every
// buffer must be used.
std::vector<Lifetime> lives_of(const Program& p, const std::vector<BufferId>& buffers);

// Returns the largest number of bytes alive at one call, scratch included: a lower bound of the
// arena. Every buffer that is not state must be used.
int64_t live_bytes(const Program& p);

// Lengthens a lifetime by `pad` compute calls at each end that is a call of another queue, so that
// the call can start early or end late before the bytes are reused.
void extend_lifetimes(const Program& p, int pad, std::vector<Lifetime>& lives);

}  // namespace tessera::compile

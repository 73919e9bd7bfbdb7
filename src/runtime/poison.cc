// Debugging aid for buffer assignment: fills buffers with NaN before their first call and after
// their last one, and scratch before each call. A read of bytes outside a lifetime then becomes
// visible as NaN.
#include "runtime/poison.h"

#include <cstring>

namespace tessera::runtime {
namespace {

constexpr int kPoison = 0xff;  // a NaN in every floating type, −1 in every integer

}  // namespace

Poison::Poison(const Program& program, Arenas arenas)
    : program_(program),
      arenas_(arenas),
      first_(program.buffers.size()),
      calls_(program.buffers.size(), 0) {
  for (const CallId c : program.schedule.ids())
    for (const BufferId f : program.call(c).buffers) {
      CallId& first = first_[f];
      if (first == kNone) first = c;
      ++calls_[f];
    }
}

void Poison::start() { left_ = calls_; }

void Poison::before(CallId c) {
  const Segment& s = program_.segment(program_.call(c));
  std::memset(arenas_.arena + scratch_offset(program_, s.queue), kPoison, s.scratch_bytes);
  for (const BufferId f : program_.call(c).buffers)
    if (first_[f] == c) spoil(f);
}

// Calls of different queues do not end in issue order: the lifetime of a buffer ends when all its
// calls have ended.
void Poison::after(CallId c) {
  for (const BufferId f : program_.call(c).buffers)
    if (--left_[f] == 0) spoil(f);
}

void Poison::spoil(BufferId f) const {
  if (program_.buffer(f).state) return;
  std::memset(arenas_.buffer(program_, f), kPoison, program_.bytes_of(f));
}

}  // namespace tessera::runtime

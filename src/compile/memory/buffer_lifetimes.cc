// Lifetimes of buffers: from the first call that uses one to the last. State has none, since it is
// allocated for the whole run.
#include "compile/memory/buffer_lifetimes.h"

#include <algorithm>

#include "base/error.h"
#include "compile/memory/pack.h"

namespace tessera::compile {
namespace {

// Returns the position `count` compute calls away from `from` in direction `step`, or the end of
// the schedule.
int64_t compute_calls_away(const Program& p, int64_t from, int step, int count) {
  const auto last = std::ssize(p.schedule) - 1;
  int64_t at = from;
  while (count > 0 && at + step >= 0 && at + step <= last) {
    at += step;
    if (p.segment(p.call(CallId(at))).queue == Queue::kCompute) --count;
  }
  return at;
}

// Extends the lifetimes of gradients to the end of the step if Muon computes directions. Between
// the updates these need buffers and scratch, which must not reuse the bytes of gradients:
// gradients are read after the step too (local_gradients()).
void keep_gradients(const Program& p, IdVector<BufferId, Lifetime>& lives) {
  const auto calls = p.schedule.ids();
  const bool directs = std::any_of(calls.begin(), calls.end(), [&](CallId c) {
    return p.segment(p.call(c)).phase == Phase::kDirection;
  });
  if (!directs) return;
  for (const CallId c : calls) {
    if (p.segment(p.call(c)).phase != Phase::kUpdate) continue;
    for (const BufferId f : p.call(c).buffers)
      if (p[p.kind(p.buffer(f).kind).values.at(0)].role == Role::kGradient)
        lives[f].death = std::ssize(p.schedule) - 1;
  }
}

}  // namespace

std::vector<BufferId> moving_buffers(const Program& p, bool host) {
  std::vector<BufferId> moving;
  for (const BufferId f : p.buffers.ids())
    if (!p.buffer(f).state && p.kind(p.buffer(f).kind).host == host) moving.push_back(f);
  return moving;
}

std::vector<Lifetime> lives_of(const Program& p, const std::vector<BufferId>& buffers) {
  IdVector<BufferId, Lifetime> all(p.buffers.size(), Lifetime{kNone, kNone, 0, 0});
  for (const CallId c : p.schedule.ids())
    for (const BufferId f : p.schedule[c].buffers) {
      Lifetime& life = all[f];
      if (life.birth == kNone) life.birth = c.number();
      life.death = c.number();
    }
  keep_gradients(p, all);
  std::vector<Lifetime> lives;
  for (const BufferId f : buffers) {
    lives.push_back(all[f]);
    lives.back().bytes = p.bytes_of(f);
    CHECK(lives.back().birth != kNone, "no call touches buffer {}", buffer_name(p, f));
  }
  return lives;
}

int64_t live_bytes(const Program& p) {
  const std::vector<Lifetime> lives = lives_of(p, moving_buffers(p, false));
  const std::vector<int64_t> alive = bytes_alive(lives, p.schedule.size());
  int64_t most = 0;
  for (const CallId c : p.schedule.ids())
    most = std::max(most, alive[c.index()] + p.segment(p.schedule[c]).scratch_bytes);
  return p.state_bytes + most;
}

// Transfers have no fixed position relative to compute calls. A lifetime that begins or ends with
// one is extended by `pad` compute calls, so that the reuse of its bytes does not delay the
// transfer.
void extend_lifetimes(const Program& p, int pad, std::vector<Lifetime>& lives) {
  const auto queue = [&](int64_t c) { return p.segment(p.call(CallId(c))).queue; };
  for (Lifetime& l : lives) {
    if (queue(l.birth) != Queue::kCompute) l.birth = compute_calls_away(p, l.birth, -1, pad);
    if (queue(l.death) != Queue::kCompute) l.death = compute_calls_away(p, l.death, +1, pad);
  }
}

}  // namespace tessera::compile

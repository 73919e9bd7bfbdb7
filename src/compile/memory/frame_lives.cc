// Lifetimes of buffers: from the first call that uses one to the last. State has none, since it is
// allocated for the whole run.
#include "compile/memory/frame_lives.h"

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

// Extends the lifetimes of gradients to the last call that writes Muon's directions. Those buffers
// are created between updates, and must not reuse bytes of gradients, which are read after the step
// too (gradient_pieces()).
void keep_gradients(const Program& p, IdVector<FrameId, Life>& lives) {
  int64_t last = kNone;
  for (const CallId c : p.schedule.ids())
    if (p.segment(p.call(c)).phase == Phase::kDirection) last = c.number();
  for (const CallId c : p.schedule.ids()) {
    if (last == kNone || p.segment(p.call(c)).phase != Phase::kUpdate) continue;
    for (const FrameId f : p.call(c).frames)
      if (p[p.kind(p.frame(f).kind).values.at(0)].role == Role::kGradient)
        lives[f].death = std::max(lives[f].death, last);
  }
}

}  // namespace

std::vector<FrameId> moving_frames(const Program& p, bool host) {
  std::vector<FrameId> moving;
  for (const FrameId f : p.frames.ids())
    if (!p.frame(f).state && p.kind(p.frame(f).kind).host == host) moving.push_back(f);
  return moving;
}

std::vector<Life> lives_of(const Program& p, const std::vector<FrameId>& frames) {
  IdVector<FrameId, Life> all(p.frames.size(), Life{kNone, kNone, 0, 0});
  for (const CallId c : p.schedule.ids())
    for (const FrameId f : p.schedule[c].frames) {
      Life& life = all[f];
      if (life.birth == kNone) life.birth = c.number();
      life.death = c.number();
    }
  keep_gradients(p, all);
  std::vector<Life> lives;
  for (const FrameId f : frames) {
    lives.push_back(all[f]);
    lives.back().bytes = p.bytes_of(f);
    CHECK(lives.back().birth != kNone, "no call touches frame {}", frame_name(p, f));
  }
  return lives;
}

int64_t live_bytes(const Program& p) {
  const std::vector<Life> lives = lives_of(p, moving_frames(p, false));
  const std::vector<int64_t> alive = bytes_alive(lives, p.schedule.size());
  int64_t most = 0;
  for (const CallId c : p.schedule.ids())
    most = std::max(most, alive[c.index()] + p.segment(p.schedule[c]).scratch_bytes);
  return p.state_bytes + most;
}

// Transfers have no fixed position relative to compute calls. A lifetime that begins or ends with
// one is extended by `pad` compute calls, so that the reuse of its bytes does not delay the
// transfer.
void stretch(const Program& p, int pad, std::vector<Life>& lives) {
  const auto queue = [&](int64_t c) { return p.segment(p.call(CallId(c))).queue; };
  for (Life& l : lives) {
    if (queue(l.birth) != Queue::kCompute) l.birth = compute_calls_away(p, l.birth, -1, pad);
    if (queue(l.death) != Queue::kCompute) l.death = compute_calls_away(p, l.death, +1, pad);
  }
}

}  // namespace tessera::compile

#include "compile/place.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "compile/bytes.h"
#include "compile/pack.h"
#include "compile/waits.h"

namespace tessera {
namespace {

int64_t round_up(int64_t n, int64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

// The frames that move, in the arena or in the host's; every other vector of lives is parallel to
// this one.
std::vector<FrameId> moving_frames(const Program& p, bool host) {
  std::vector<FrameId> moving;
  for (FrameId f = 0; f < static_cast<FrameId>(p.frames.size()); ++f)
    if (!p.frame(f).state && p.kind(p.frame(f).kind).host == host) moving.push_back(f);
  return moving;
}

// From first to last toucher.
std::vector<Life> lives_of(const Program& p, const std::vector<FrameId>& frames) {
  std::vector<Life> all(p.frames.size(), Life{kNone, kNone, 0, 0});
  for (size_t c = 0; c < p.schedule.size(); ++c)
    for (const FrameId f : p.schedule[c].frames) {
      Life& life = all[static_cast<size_t>(f)];
      if (life.birth == kNone) life.birth = static_cast<int64_t>(c);
      life.death = static_cast<int64_t>(c);
    }
  std::vector<Life> lives;
  for (const FrameId f : frames) {
    lives.push_back(all[static_cast<size_t>(f)]);
    lives.back().bytes = p.bytes_of(f);
    CHECK(lives.back().birth != kNone, "no call touches frame {}", frame_name(p, f));
  }
  return lives;
}

// The position `count` compute calls away from `from` in direction `step`, or the end of the
// schedule.
int64_t compute_calls_away(const Program& p, int64_t from, int step, int count) {
  const auto last = static_cast<int64_t>(p.schedule.size()) - 1;
  int64_t at = from;
  while (count > 0 && at + step >= 0 && at + step <= last) {
    at += step;
    if (p.segment(p.call(static_cast<CallId>(at))).queue == Queue::kCompute) --count;
  }
  return at;
}

// Leaves another queue time to start early or end late before the bytes are used again.
void stretch(const Program& p, int pad, std::vector<Life>& lives) {
  const auto queue = [&](int64_t c) { return p.segment(p.call(static_cast<CallId>(c))).queue; };
  for (Life& l : lives) {
    if (queue(l.birth) != Queue::kCompute) l.birth = compute_calls_away(p, l.birth, -1, pad);
    if (queue(l.death) != Queue::kCompute) l.death = compute_calls_away(p, l.death, +1, pad);
  }
}

// A lower bound of the arena: what one call and everything that waits for a later one need.
int64_t live_set(const Program& p, const std::vector<Life>& lives) {
  std::vector<int64_t> change(p.schedule.size() + 1, 0);
  for (const Life& l : lives) {
    change[static_cast<size_t>(l.birth)] += l.bytes;
    change[static_cast<size_t>(l.death) + 1] -= l.bytes;
  }
  int64_t most = 0, alive = 0;
  for (size_t c = 0; c < p.schedule.size(); ++c) {
    alive += change[c];
    most = std::max(most, alive + p.segment(p.schedule[c]).scratch_bytes);
  }
  return p.state_bytes + most;
}

// Each queue's scratch, of which every call takes as much as it needs; the rest is free for frames.
std::vector<Region> scratch_regions(const Program& p, int pad) {
  std::vector<Region> regions(kQueues);
  for (int q = 0; q < kQueues; ++q) {
    Region& r = regions[static_cast<size_t>(q)];
    r.offset = scratch_offset(p, static_cast<Queue>(q)) - p.scratch_offset;
    if (scratch_bytes(p, static_cast<Queue>(q)) > 0) r.used.assign(p.schedule.size(), 0);
  }
  for (size_t c = 0; c < p.schedule.size(); ++c) {
    const Segment& s = p.segment(p.schedule[c]);
    if (s.scratch_bytes == 0) continue;
    std::vector<Life> use = {{static_cast<int64_t>(c), static_cast<int64_t>(c), 0, 0}};
    stretch(p, pad, use);
    for (int64_t at = use[0].birth; at <= use[0].death; ++at) {
      int64_t& used = regions[static_cast<size_t>(s.queue)].used[static_cast<size_t>(at)];
      used = std::max(used, s.scratch_bytes);
    }
  }
  return regions;
}

// The first call that adds to a frame writes it, unless the frame was written before (the report,
// which is cleared because not every stage adds to it).
void mark_fresh(Program& p) {
  std::vector<bool> written(p.frames.size(), false);
  for (Call& c : p.schedule) {
    const Segment& s = p.segment(c);
    CHECK(c.frames.size() == s.frames.size(), "{} has {} frames, its segment takes {}", s.name,
          c.frames.size(), s.frames.size());
    c.fresh.assign(c.frames.size(), false);
    for (size_t i = 0; i < c.frames.size(); ++i) {
      const auto f = static_cast<size_t>(c.frames[i]);
      if (s.frames[i].access == Access::kRead) continue;
      c.fresh[i] = s.frames[i].access == Access::kAdd && !written[f];
      written[f] = true;
    }
  }
}

void check_state(const Program& p) {
  for (FrameId f = 0; f < static_cast<FrameId>(p.frames.size()); ++f) {
    const int64_t offset = p.frame(f).offset;
    CHECK(!p.frame(f).state || (offset >= 0 && offset + p.bytes_of(f) <= p.state_bytes),
          "state frame {} has no place in the first {} bytes", frame_name(p, f), p.state_bytes);
  }
}

// Each queue's scratch is one region, as large as the largest of its calls; frames go above state
// into what the calls of their lives leave free.
void place_frames(Program& p, const PlaceOptions& options) {
  const std::vector<FrameId> frames = moving_frames(p, false);
  std::vector<Life> lives = lives_of(p, frames);
  p.live_bytes = live_set(p, lives);
  p.scratch_offset = round_up(p.state_bytes, options.alignment);
  stretch(p, options.pad, lives);
  const int64_t packed = pack(lives, scratch_regions(p, options.pad), options.alignment);
  int64_t end = p.scratch_offset + packed;
  for (int q = 0; q < kQueues; ++q) {
    const auto queue = static_cast<Queue>(q);
    if (scratch_bytes(p, queue) > 0)
      end = std::max(end, scratch_offset(p, queue) + scratch_bytes(p, queue));
  }
  p.bytes = round_up(end, options.alignment);
  for (size_t i = 0; i < frames.size(); ++i)
    p.frames[static_cast<size_t>(frames[i])].offset = p.scratch_offset + lives[i].offset;
}

// One line of bytes for both arenas, so that who reasons about bytes need not know of two.
void place_host_frames(Program& p, const PlaceOptions& options) {
  const std::vector<FrameId> frames = moving_frames(p, true);
  std::vector<Life> lives = lives_of(p, frames);
  stretch(p, options.pad, lives);
  p.host_bytes = round_up(pack(lives, {}, options.alignment), options.alignment);
  for (size_t i = 0; i < frames.size(); ++i)
    p.frames[static_cast<size_t>(frames[i])].offset = p.bytes + lives[i].offset;
}

}  // namespace

void place(Program& program, const PlaceOptions& options) {
  CHECK(options.alignment > 0 && kScratchAlignment % options.alignment == 0,
        "alignment of {} bytes", options.alignment);
  check_state(program);
  place_frames(program, options);
  place_host_frames(program, options);
  mark_fresh(program);
  find_waits(program);
}

}  // namespace tessera

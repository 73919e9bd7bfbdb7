#include "compile/memory/place.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "compile/memory/bytes.h"
#include "compile/memory/frame_lives.h"
#include "compile/memory/pack.h"
#include "compile/memory/waits.h"

namespace tessera {
namespace {

int64_t round_up(int64_t n, int64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

// A lower bound of the arena: what one call and everything that waits for a later one need.
int64_t live_set(const Program& p, const std::vector<Life>& lives) {
  const std::vector<int64_t> alive = bytes_alive(lives, p.schedule.size());
  int64_t most = 0;
  for (const CallId c : p.schedule.ids())
    most = std::max(most, alive[c.index()] + p.segment(p.schedule[c]).scratch_bytes);
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
  for (const CallId c : p.schedule.ids()) {
    const Segment& s = p.segment(p.schedule[c]);
    if (s.scratch_bytes == 0) continue;
    std::vector<Life> use = {{c.number(), c.number(), 0, 0}};
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
  IdVector<FrameId, bool> written(p.frames.size(), false);
  for (Call& c : p.schedule) {
    const Segment& s = p.segment(c);
    CHECK(c.frames.size() == s.frames.size(), "{} has {} frames, its segment takes {}", s.name(),
          c.frames.size(), s.frames.size());
    c.fresh.assign(c.frames.size(), false);
    for (size_t i = 0; i < c.frames.size(); ++i) {
      const FrameId f = c.frames[i];
      if (s.frames[i].access == Access::kRead) continue;
      c.fresh[i] = s.frames[i].access == Access::kAdd && !written[f];
      written[f] = true;
    }
  }
}

void check_state(const Program& p) {
  for (const FrameId f : p.frames.ids()) {
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
    p.frames[frames[i]].offset = p.scratch_offset + lives[i].offset;
}

// One line of bytes for both arenas, so that who reasons about bytes need not know of two.
void place_host_frames(Program& p, const PlaceOptions& options) {
  const std::vector<FrameId> frames = moving_frames(p, true);
  std::vector<Life> lives = lives_of(p, frames);
  stretch(p, options.pad, lives);
  p.host_bytes = round_up(pack(lives, {}, options.alignment), options.alignment);
  for (size_t i = 0; i < frames.size(); ++i) p.frames[frames[i]].offset = p.bytes + lives[i].offset;
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

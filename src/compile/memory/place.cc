// Buffer assignment: gives every buffer its offset in the arena, and every call its waits.
//
//   arena:  [ state, fixed | scratch of queues, and all other buffers, packed together ]
//           0              scratch_offset                                             bytes
//
// Offsets of the host arena follow those of the device, so the passes see one address space.
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

// Each queue's scratch. Every call uses as many bytes of it as it needs; the rest is free for
// buffers.
std::vector<Region> scratch_regions(const Program& p, int pad) {
  std::vector<Region> regions(kQueues);
  for (int q = 0; q < kQueues; ++q) {
    Region& r = regions[q];
    r.offset = scratch_offset(p, static_cast<Queue>(q)) - p.scratch_offset;
    if (scratch_bytes(p, static_cast<Queue>(q)) > 0) r.used.assign(p.schedule.size(), 0);
  }
  for (const CallId c : p.schedule.ids()) {
    const Segment& s = p.segment(p.schedule[c]);
    if (s.scratch_bytes == 0) continue;
    std::vector<Life> use = {{c.number(), c.number(), 0, 0}};
    stretch(p, pad, use);
    for (int64_t at = use[0].birth; at <= use[0].death; ++at) {
      int64_t& used = regions[static_cast<size_t>(s.queue)].used[at];
      used = std::max(used, s.scratch_bytes);
    }
  }
  return regions;
}

// The first call that adds to a buffer writes it instead, unless the buffer was written before (the
// report, which is cleared because not every stage adds to it).
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
    const bool in_arena = p.frame(f).state && !p.kind(p.frame(f).kind).host;
    CHECK(!in_arena || (offset >= 0 && offset + p.bytes_of(f) <= p.state_bytes),
          "state frame {} has no place in the first {} bytes", frame_name(p, f), p.state_bytes);
  }
}

// Each queue's scratch is one region, as large as the largest of its calls. Buffers are placed
// above the state, in bytes that calls within their lifetimes leave free.
void place_frames(Program& p, const PlaceOptions& options) {
  const std::vector<FrameId> frames = moving_frames(p, false);
  std::vector<Life> lives = lives_of(p, frames);
  p.live_bytes = live_bytes(p);
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

// State comes first, in the order of the frames, which all programs of a run have in common.
// Returns its bytes.
int64_t place_host_state(Program& p, const PlaceOptions& options) {
  int64_t bytes = 0;
  for (Frame& f : p.frames) {
    if (!f.state || !p.kind(f.kind).host) continue;
    f.offset = p.bytes + bytes;
    bytes = round_up(bytes + p.kind(f.kind).bytes, options.alignment);
  }
  return bytes;
}

// Offsets of the host's arena count on from the end of the other, so that passes see a single
// address space.
void place_host_frames(Program& p, const PlaceOptions& options) {
  const int64_t state = place_host_state(p, options);
  const std::vector<FrameId> frames = moving_frames(p, true);
  std::vector<Life> lives = lives_of(p, frames);
  stretch(p, options.pad, lives);
  p.host_bytes = state + round_up(pack(lives, {}, options.alignment), options.alignment);
  for (size_t i = 0; i < frames.size(); ++i)
    p.frames[frames[i]].offset = p.bytes + state + lives[i].offset;
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

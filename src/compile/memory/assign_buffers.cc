// Buffer assignment: gives every buffer its offset in the arena, and every call its waits.
//
//   arena:  [ state, fixed | scratch of queues, and all other buffers, packed together ]
//           0              scratch_offset                                             bytes
//
// Offsets of the host arena follow those of the device, so the passes see one address space.
#include "compile/memory/assign_buffers.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compile/memory/buffer_lifetimes.h"
#include "compile/memory/bytes.h"
#include "compile/memory/pack.h"
#include "ir/program.h"

namespace tessera::compile {
namespace {

// ---- Computes the minimal waits between queues. Calls of one queue run in order; a call must wait
// for a call of another queue only if both use the same bytes and one of them writes. Vector
// clocks, one entry per queue, omit waits that follow from others:
//
//   clock[x][q] = the last call of queue q that is complete before x starts
//   x waits for y of queue q  only if  clock[x][q] < y  after all later conflicts were considered
//
// The schedule is walked twice in a row, because the calls of a step also conflict with those of
// the step before. The state per byte is stored in ranges (ByteMap).

// Walks two consecutive copies of the schedule. Positions continue in the second copy, so a
// conflict between the copies is a wait for the previous step.
class Waits {
 public:
  explicit Waits(Program& p)
      : p_(p), touches_(p), clocks_(2 * p.schedule.size()), last_(kNoCalls), users_(Users()) {}

  void find() {
    const auto n = std::ssize(p_.schedule);
    for (int64_t x = 0; x < 2 * n; ++x) {
      Call& call = p_.schedule[CallId(x % n)];
      const Queue queue = p_.segment(call).queue;
      const std::vector<BufferAccess> touches = touches_.of(call);
      const std::vector<int64_t> kept = waits_of(x, queue, touches);
      if (x >= n) {
        call.after.clear();
        call.before_step.clear();
        for (const int64_t y : kept)
          (y < n ? call.before_step : call.after).push_back(CallId(y % n));
        std::sort(call.after.begin(), call.after.end());
        std::sort(call.before_step.begin(), call.before_step.end());
      }
      remember(x, queue, touches);
    }
  }

 private:
  using PerQueue = EnumArray<Queue, int64_t>;  // a position of a call, or kNone
  static constexpr PerQueue kNoCalls = [] {
    PerQueue none;
    none.fill(kNone);
    return none;
  }();
  // Per byte: the last writer per queue, and the last reader per queue since then.
  struct Users {
    PerQueue writers = kNoCalls, readers = kNoCalls;
  };

  static void raise(PerQueue& a, const PerQueue& b) {
    for (const Queue q : Enumerators<Queue>()) a[q] = std::max(a[q], b[q]);
  }

  // Returns the calls that x waits for, latest first: the last conflicting call of each other
  // queue, unless waiting for another of them already implies it. The latest is considered first,
  // because its clock covers more.
  std::vector<int64_t> waits_of(int64_t x, Queue queue, const std::vector<BufferAccess>& touches) {
    PerQueue conflicts = kNoCalls;
    for (const BufferAccess& t : touches)
      users_.read(t.bytes, [&](const Users& u) {
        raise(conflicts, u.writers);
        if (t.writes) raise(conflicts, u.readers);
      });
    PerQueue& clock = clocks_[x];
    clock = kNoCalls;
    const auto wait = [&](Queue q, int64_t y) {
      raise(clock, clocks_[y]);
      clock[q] = std::max(clock[q], y);
    };
    if (last_[queue] != kNone) wait(queue, last_[queue]);
    conflicts[queue] = kNone;
    std::vector<int64_t> kept;
    for (;;) {
      Queue q = {};
      for (const Queue other : Enumerators<Queue>())
        if (conflicts[other] > conflicts[q]) q = other;
      const int64_t y = std::exchange(conflicts[q], kNone);
      if (y == kNone) return kept;
      if (clock[q] >= y) continue;
      wait(q, y);
      kept.push_back(y);
    }
  }

  // A writer has waited for all users before it, so a wait for the writer implies waits for them.
  void remember(int64_t x, Queue queue, const std::vector<BufferAccess>& touches) {
    last_[queue] = x;
    Users writer;
    writer.writers[queue] = x;
    for (const BufferAccess& t : touches)
      if (t.writes)
        users_.assign(t.bytes, writer);
      else
        users_.change(t.bytes, [&](Users& u) { u.readers[queue] = x; });
  }

  Program& p_;
  AccessMap touches_;
  std::vector<PerQueue> clocks_;  // per call: the last call of each queue that is complete before
                                  // it
  PerQueue last_;                 // last call of each queue
  ByteMap<Users> users_;
};

int64_t round_up(int64_t n, int64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

// Returns each queue's scratch. A call occupies as many bytes of it as it needs; the rest is free
// for buffers.
std::vector<Region> scratch_regions(const Program& p, int pad) {
  EnumArray<Queue, Region> regions;
  for (const Queue q : Enumerators<Queue>()) {
    regions[q].offset = scratch_offset(p, q) - p.scratch_offset;
    if (scratch_bytes(p, q) > 0) regions[q].used.assign(p.schedule.size(), 0);
  }
  for (const CallId c : p.schedule.ids()) {
    const Segment& s = p.segment(p.schedule[c]);
    if (s.scratch_bytes == 0) continue;
    std::vector<Lifetime> use = {{c.number(), c.number(), 0, 0}};
    extend_lifetimes(p, pad, use);
    for (int64_t at = use[0].birth; at <= use[0].death; ++at) {
      int64_t& used = regions[s.queue].used[at];
      used = std::max(used, s.scratch_bytes);
    }
  }
  return {regions.begin(), regions.end()};
}

// Marks the first call that adds to a buffer: it writes the buffer instead, unless the buffer was
// written before (as the report, which is cleared because not every stage adds to it).
void mark_fresh(Program& p) {
  IdVector<BufferId, bool> written(p.buffers.size(), false);
  for (Call& c : p.schedule) {
    const Segment& s = p.segment(c);
    CHECK(c.buffers.size() == s.buffers.size(),
          "{} has {} buffers, but its segment has {} parameters", s.name(), c.buffers.size(),
          s.buffers.size());
    c.first_write.assign(c.buffers.size(), false);
    for (size_t i = 0; i < c.buffers.size(); ++i) {
      const BufferId f = c.buffers[i];
      if (s.buffers[i].access == Access::kRead) continue;
      c.first_write[i] = s.buffers[i].access == Access::kAdd && !written[f];
      written[f] = true;
    }
  }
}

void check_state(const Program& p) {
  for (const BufferId f : p.buffers.ids()) {
    const int64_t offset = p.buffer(f).offset;
    const bool in_arena = p.buffer(f).state && !p.kind(p.buffer(f).kind).host;
    CHECK(!in_arena || (offset >= 0 && offset + p.bytes_of(f) <= p.state_bytes),
          "state buffer {} is not within the first {} bytes", buffer_name(p, f), p.state_bytes);
  }
}

// Assigns the buffers. Each queue's scratch is one region, as large as its largest call needs.
// Buffers are placed above the state, in bytes that calls within their lifetimes leave free.
void place_buffers(Program& p, const BufferAssignmentOptions& options) {
  const std::vector<BufferId> buffers = moving_buffers(p, false);
  std::vector<Lifetime> lives = lives_of(p, buffers);
  p.live_bytes = live_bytes(p);
  p.scratch_offset = round_up(p.state_bytes, options.alignment);
  extend_lifetimes(p, options.pad, lives);
  const int64_t packed = pack(lives, scratch_regions(p, options.pad), options.alignment);
  int64_t end = p.scratch_offset + packed;
  for (const Queue queue : Enumerators<Queue>()) {
    if (scratch_bytes(p, queue) > 0)
      end = std::max(end, scratch_offset(p, queue) + scratch_bytes(p, queue));
  }
  p.bytes = round_up(end, options.alignment);
  for (size_t i = 0; i < buffers.size(); ++i)
    p.buffers[buffers[i]].offset = p.scratch_offset + lives[i].offset;
}

// Places host state first, in the order of the buffers, which all programs of a run have in common.
// Returns its bytes.
int64_t place_host_state(Program& p, const BufferAssignmentOptions& options) {
  int64_t bytes = 0;
  for (Buffer& f : p.buffers) {
    if (!f.state || !p.kind(f.kind).host) continue;
    f.offset = p.bytes + bytes;
    bytes = round_up(bytes + p.kind(f.kind).bytes, options.alignment);
  }
  return bytes;
}

// Places host buffers. Offsets of the host arena continue from the end of the device arena, so that
// passes see a single address space.
void place_host_buffers(Program& p, const BufferAssignmentOptions& options) {
  const int64_t state = place_host_state(p, options);
  const std::vector<BufferId> buffers = moving_buffers(p, true);
  std::vector<Lifetime> lives = lives_of(p, buffers);
  extend_lifetimes(p, options.pad, lives);
  p.host_bytes = state + round_up(pack(lives, {}, options.alignment), options.alignment);
  for (size_t i = 0; i < buffers.size(); ++i)
    p.buffers[buffers[i]].offset = p.bytes + state + lives[i].offset;
}

}  // namespace

void assign_buffers(Program& program, const BufferAssignmentOptions& options) {
  CHECK(options.alignment > 0 && kScratchAlignment % options.alignment == 0,
        "alignment of {} bytes", options.alignment);
  check_state(program);
  place_buffers(program, options);
  place_host_buffers(program, options);
  mark_fresh(program);
  Waits(program).find();
}

}  // namespace tessera::compile

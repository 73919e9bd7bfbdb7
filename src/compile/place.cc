#include "compile/place.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "compile/bytes.h"

namespace tessera {
namespace {

int64_t round_up(int64_t n, int64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

// A frame's time in the arena, as closed interval of positions in the schedule, and its place.
struct Life {
  FrameId frame = kNone;
  int64_t birth = 0, death = 0, bytes = 0;
  int64_t offset = 0;

  bool meets(const Life& o) const { return birth <= o.death && o.birth <= death; }
};

// The frames that move, from first to last toucher, in the order of frames.
std::vector<Life> lives_of(const Program& p) {
  std::vector<Life> lives(p.frames.size());
  for (size_t f = 0; f < p.frames.size(); ++f)
    lives[f] = {static_cast<FrameId>(f), kNone, kNone, p.bytes_of(static_cast<FrameId>(f)), 0};
  for (size_t c = 0; c < p.schedule.size(); ++c)
    for (const FrameId f : p.schedule[c].frames) {
      Life& life = lives[static_cast<size_t>(f)];
      if (life.birth == kNone) life.birth = static_cast<int64_t>(c);
      life.death = static_cast<int64_t>(c);
    }
  std::erase_if(lives, [&](const Life& l) { return p.frame(l.frame).state; });
  for (const Life& l : lives)
    CHECK(l.birth != kNone, "no call touches frame {}", frame_name(p, l.frame));
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
  for (Life& l : lives) {
    const auto queue = [&](int64_t c) { return p.segment(p.call(static_cast<CallId>(c))).queue; };
    if (queue(l.birth) != Queue::kCompute) l.birth = compute_calls_away(p, l.birth, -1, pad);
    if (queue(l.death) != Queue::kCompute) l.death = compute_calls_away(p, l.death, +1, pad);
  }
}

// The lowest (or the tightest) gap between `taken`, sorted by offset, that `bytes` fit in.
int64_t gap_for(const std::vector<const Life*>& taken, int64_t bytes, int64_t alignment,
                bool best_fit) {
  int64_t free_from = 0;
  std::optional<std::pair<int64_t, int64_t>> best;  // slack, offset
  for (const Life* t : taken) {
    const int64_t slack = t->offset - free_from - bytes;
    if (slack >= 0 && !best_fit) return free_from;
    if (slack >= 0 && (!best || slack < best->first)) best = {slack, free_from};
    free_from = std::max(free_from, round_up(t->offset + t->bytes, alignment));
  }
  return best ? best->second : free_from;
}

// Gives every life an offset, in the order given; returns the bytes needed.
int64_t pack(std::vector<Life>& lives, const std::vector<size_t>& order, int64_t alignment,
             bool best_fit) {
  std::vector<const Life*> placed;  // sorted by offset
  std::vector<const Life*> taken;
  int64_t bytes = 0;
  for (const size_t i : order) {
    Life& life = lives[i];
    taken.clear();
    std::copy_if(placed.begin(), placed.end(), std::back_inserter(taken),
                 [&](const Life* o) { return life.meets(*o); });
    life.offset = gap_for(taken, life.bytes, alignment, best_fit);
    bytes = std::max(bytes, life.offset + life.bytes);
    const auto by_offset = [](const Life* a, const Life* b) { return a->offset < b->offset; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &life, by_offset), &life);
  }
  return bytes;
}

// Orders to pack in: what comes first finds the most room.
enum class Order { kSize, kArea, kBirth, kLength };

std::vector<size_t> ordered(const std::vector<Life>& lives, Order by) {
  const auto key = [&](const Life& l) {
    const int64_t length = l.death - l.birth + 1;
    switch (by) {
      case Order::kSize:
        return -l.bytes;
      case Order::kArea:
        return -l.bytes * length;
      case Order::kBirth:
        return l.birth;
      case Order::kLength:
        return -length;
    }
    return int64_t{0};
  };
  std::vector<size_t> order(lives.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(key(lives[a]), -lives[a].bytes) < std::pair(key(lives[b]), -lives[b].bytes);
  });
  return order;
}

// The largest sum of bytes that are alive together, and `extra` of each call.
template <class F>
int64_t most_alive(const Program& p, const std::vector<Life>& lives, const F& extra) {
  std::vector<int64_t> change(p.schedule.size() + 1, 0);
  for (const Life& l : lives) {
    change[static_cast<size_t>(l.birth)] += l.bytes;
    change[static_cast<size_t>(l.death) + 1] -= l.bytes;
  }
  int64_t most = 0, alive = 0;
  for (size_t c = 0; c < p.schedule.size(); ++c) {
    alive += change[c];
    most = std::max(most, alive + extra(p.schedule[c]));
  }
  return most;
}

// No order can do better than what is alive together, so the first that needs no more is taken.
int64_t pack_best(const Program& p, std::vector<Life>& lives, int64_t alignment) {
  const int64_t bound = most_alive(p, lives, [](const Call&) { return int64_t{0}; });
  std::vector<Life> best;
  int64_t best_bytes = std::numeric_limits<int64_t>::max();
  for (const Order by : {Order::kSize, Order::kArea, Order::kBirth, Order::kLength})
    for (const bool best_fit : {true, false}) {
      if (best_bytes <= bound) break;
      std::vector<Life> attempt = lives;
      const int64_t bytes = pack(attempt, ordered(attempt, by), alignment, best_fit);
      if (bytes >= best_bytes) continue;
      best = std::move(attempt);
      best_bytes = bytes;
    }
  lives = std::move(best);
  return best_bytes;
}

// A lower bound of the arena: what one call and everything that waits for a later one need.
int64_t live_set(const Program& p, const std::vector<Life>& lives) {
  return p.state_bytes +
         most_alive(p, lives, [&](const Call& c) { return p.segment(c).scratch_bytes; });
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

// Walks the schedule written twice in a row; positions count on in the second copy, so an entry
// of the second that points into the first is a wait for the step before.
class Waits {
 public:
  explicit Waits(Program& p)
      : p_(p),
        sharing_(sharing_frames(p)),
        clocks_(2 * p.schedule.size()),
        last_(kNoCalls),
        readers_(p.frames.size(), kNoCalls),
        writers_(p.frames.size(), kNoCalls) {}

  void find() {
    const auto n = static_cast<int64_t>(p_.schedule.size());
    for (int64_t x = 0; x < 2 * n; ++x) {
      Call& call = p_.schedule[static_cast<size_t>(x % n)];
      const std::vector<int64_t> kept = waits_of(x, call);
      if (x >= n) {
        call.after.clear();
        call.before_step.clear();
        for (const int64_t y : kept)
          (y < n ? call.before_step : call.after).push_back(static_cast<CallId>(y % n));
        std::sort(call.after.begin(), call.after.end());
        std::sort(call.before_step.begin(), call.before_step.end());
      }
      remember(x, call);
    }
  }

 private:
  using PerQueue = std::array<int64_t, kQueues>;  // a position of a call, or kNone
  static constexpr PerQueue kNoCalls = {kNone, kNone, kNone, kNone, kNone};

  static void raise(PerQueue& a, const PerQueue& b) {
    for (size_t q = 0; q < kQueues; ++q) a[q] = std::max(a[q], b[q]);
  }

  // The calls x waits for, latest first: the last of each other queue in conflict with it, unless
  // one of the others waited for it already.
  std::vector<int64_t> waits_of(int64_t x, const Call& call) {
    const Segment& s = p_.segment(call);
    const auto queue = static_cast<size_t>(s.queue);
    PerQueue conflicts = kNoCalls;
    for (size_t i = 0; i < call.frames.size(); ++i)
      for (const FrameId f : sharing_[static_cast<size_t>(call.frames[i])]) {
        raise(conflicts, writers_[static_cast<size_t>(f)]);
        if (s.frames[i].access != Access::kRead) raise(conflicts, readers_[static_cast<size_t>(f)]);
      }
    PerQueue& clock = clocks_[static_cast<size_t>(x)];
    clock = kNoCalls;
    const auto wait = [&](size_t q, int64_t y) {
      raise(clock, clocks_[static_cast<size_t>(y)]);
      clock[q] = std::max(clock[q], y);
    };
    if (last_[queue] != kNone) wait(queue, last_[queue]);
    conflicts[queue] = kNone;
    std::vector<int64_t> kept;
    for (;;) {
      const auto latest = std::max_element(conflicts.begin(), conflicts.end());
      const int64_t y = *latest;
      if (y == kNone) return kept;
      *latest = kNone;
      const auto q = static_cast<size_t>(latest - conflicts.begin());
      if (clock[q] >= y) continue;
      wait(q, y);
      kept.push_back(y);
    }
  }

  void remember(int64_t x, const Call& call) {
    const Segment& s = p_.segment(call);
    const auto queue = static_cast<size_t>(s.queue);
    last_[queue] = x;
    for (size_t i = 0; i < call.frames.size(); ++i) {
      const auto f = static_cast<size_t>(call.frames[i]);
      (s.frames[i].access == Access::kRead ? readers_ : writers_)[f][queue] = x;
    }
  }

  Program& p_;
  std::vector<std::vector<FrameId>> sharing_;
  std::vector<PerQueue>
      clocks_;     // of each call: the last call of each queue that is over before it
  PerQueue last_;  // of each queue
  std::vector<PerQueue> readers_, writers_;  // of each frame, the last of each queue
};

// Each queue's scratch is one region, as large as the largest of its calls; returns their end.
int64_t place_scratch(Program& p, int64_t alignment) {
  p.scratch_offset = round_up(p.state_bytes, alignment);
  int64_t end = p.scratch_offset;
  for (int q = 0; q < kQueues; ++q) {
    const auto queue = static_cast<Queue>(q);
    if (scratch_bytes(p, queue) > 0) end = scratch_offset(p, queue) + scratch_bytes(p, queue);
  }
  return round_up(end, alignment);
}

}  // namespace

void place(Program& program, const PlaceOptions& options) {
  CHECK(options.alignment > 0 && kScratchAlignment % options.alignment == 0,
        "alignment of {} bytes", options.alignment);
  for (FrameId f = 0; f < static_cast<FrameId>(program.frames.size()); ++f) {
    const int64_t offset = program.frame(f).offset;
    CHECK(!program.frame(f).state ||
              (offset >= 0 && offset + program.bytes_of(f) <= program.state_bytes),
          "state frame {} has no place in the first {} bytes", frame_name(program, f),
          program.state_bytes);
  }
  std::vector<Life> lives = lives_of(program);
  program.live_bytes = live_set(program, lives);
  const int64_t base = place_scratch(program, options.alignment);
  stretch(program, options.pad, lives);
  program.bytes = round_up(base + pack_best(program, lives, options.alignment), options.alignment);
  for (const Life& l : lives) program.frames[static_cast<size_t>(l.frame)].offset = base + l.offset;
  mark_fresh(program);
  Waits(program).find();
}

}  // namespace tessera

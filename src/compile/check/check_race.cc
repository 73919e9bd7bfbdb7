// Checks that calls of different queues that use the same bytes are ordered: happens-before by
// vector clocks, as race detectors do (FastTrack, Flanagan & Freund 2009), on address ranges
// instead of variables. The check does not rely on how assign_buffers.cc computed the waits: it
// derives the order only from the waits in the program.
#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "compile/check/check_parts.h"
#include "compile/memory/bytes.h"

namespace tessera::compile {
namespace {

using PerQueue = EnumArray<Queue, int64_t>;  // a position in two consecutive copies of the
                                             // schedule, or kNone

void raise(PerQueue& a, const PerQueue& b) {
  for (const Queue q : Enumerators<Queue>()) a[q] = std::max(a[q], b[q]);
}

// The last calls of each queue that read or wrote a byte and may still be running.
struct Users {
  PerQueue readers, writers;
};

constexpr PerQueue kNoCalls = [] {
  PerQueue none;
  none.fill(kNone);
  return none;
}();

class Races {
 public:
  Races(const Program& p, int rank)
      : p_(p),
        rank_(rank),
        touches_(p),
        users_({kNoCalls, kNoCalls}),
        clocks_(2 * p.schedule.size(), kNoCalls) {}

  std::vector<Finding> find(const std::vector<int64_t>& order) {
    PerQueue last = kNoCalls;
    for (const int64_t x : order) {
      const Queue queue = p_.segment(call(x)).queue;
      advance(x, last[queue]);
      const std::vector<BufferAccess> touches = touches_.of(call(x));
      std::vector<bool> ordered;
      for (const BufferAccess& t : touches) ordered.push_back(compare(x, queue, t));
      for (size_t i = 0; i < touches.size(); ++i) remember(x, queue, touches[i], ordered[i]);
      last[queue] = x;
    }
    return std::move(findings_);
  }

 private:
  int64_t length() const { return std::ssize(p_.schedule); }
  const Call& call(int64_t x) const { return p_.call(CallId(x % length())); }

  // Sets the clock of x to the calls that are complete before it: the call before it in its queue,
  // the calls that it waits for, and those that they waited for.
  void advance(int64_t x, int64_t ahead) {
    PerQueue& clock = clocks_[x];
    const auto wait = [&](int64_t y) {
      raise(clock, clocks_[y]);
      int64_t& mine = clock[p_.segment(call(y)).queue];
      mine = std::max(mine, y);
    };
    if (ahead != kNone) wait(ahead);
    for (const CallId y : call(x).after) wait(y.number() + (x < length() ? 0 : length()));
    if (x >= length())
      for (const CallId y : call(x).before_step) wait(y.number());
  }

  // Returns true if everything that conflicts with the access is complete before x; reports races.
  bool compare(int64_t x, Queue queue, const BufferAccess& t) {
    const PerQueue& clock = clocks_[x];
    std::set<int64_t> racing;
    users_.read(t.bytes, [&](const Users& u) {
      for (const Queue q : Enumerators<Queue>()) {
        if (q == queue) continue;
        if (u.writers[q] > clock[q]) racing.insert(u.writers[q]);
        if (t.writes && u.readers[q] > clock[q]) racing.insert(u.readers[q]);
      }
    });
    for (const int64_t y : racing) say(x, y, t);
    return racing.empty();
  }

  // A call after an ordered writer also comes after everything that the writer came after, so older
  // users can be forgotten.
  void remember(int64_t x, Queue queue, const BufferAccess& t, bool ordered) {
    if (t.writes && ordered) {
      Users writer{kNoCalls, kNoCalls};
      writer.writers[queue] = x;
      users_.assign(t.bytes, writer);
    } else {
      users_.change(t.bytes, [&](Users& u) { (t.writes ? u.writers : u.readers)[queue] = x; });
    }
  }

  std::string item_name(BufferId buffer) const {
    return buffer == kNone ? "the scratch of its queue" : buffer_name(p_, buffer);
  }

  // Returns the access of y to the bytes of t, preferably to the same buffer.
  BufferAccess counterpart(int64_t y, const BufferAccess& t) const {
    BufferAccess found;
    for (const BufferAccess& other : touches_.of(call(y)))
      if (other.bytes.meets(t.bytes) && (t.writes || other.writes)) {
        found = other;
        if (other.buffer == t.buffer) break;
      }
    return found;
  }

  void say(int64_t x, int64_t y, const BufferAccess& t) {
    if (!said_.emplace(x % length(), y % length()).second) return;
    const BufferAccess its = counterpart(y, t);
    const auto name = [&](int64_t z) { return call_name(p_, CallId(z % length())); };
    std::string text = fmt::format("call {} touches {}", name(x), item_name(t.buffer));
    text += fmt::format(", and call {} ", name(y));
    if (y < length() && x >= length()) text += "of the previous step ";
    text += t.buffer != kNone && t.buffer == its.buffer
                ? "too"
                : fmt::format("{} in the same bytes", item_name(its.buffer));
    findings_.push_back({"race", text + ": nothing orders them", rank_, CallId(x % length())});
  }

  const Program& p_;
  int rank_;
  AccessMap touches_;
  ByteMap<Users> users_;
  std::vector<PerQueue> clocks_;                // per position
  std::set<std::pair<int64_t, int64_t>> said_;  // pairs of calls that were reported
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> check_race(const Program& p, int rank, const std::vector<int64_t>& order) {
  return Races(p, rank).find(order);
}

}  // namespace tessera::compile

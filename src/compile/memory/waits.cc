// Computes the minimal waits between queues. Calls of one queue run in order; a call must wait for
// a call of another queue only if both use the same bytes and one of them writes. Vector clocks,
// one entry per queue, omit waits that follow from others:
//
//   clock[x][q] = the last call of queue q that is complete before x starts
//   x waits for y of queue q  only if  clock[x][q] < y  after all later conflicts were considered
//
// The schedule is walked twice in a row, because the calls of a step also conflict with those of
// the step before. The state per byte is stored in ranges (ByteMap).
#include "compile/memory/waits.h"

#include <algorithm>
#include <array>
#include <vector>

#include "compile/memory/bytes.h"

namespace tessera {
namespace {

// Walks the schedule written twice in a row. Positions continue in the second copy, so a conflict
// of the second copy with the first is a wait for the step before.
class Waits {
 public:
  explicit Waits(Program& p)
      : p_(p), touches_(p), clocks_(2 * p.schedule.size()), last_(kNoCalls), users_(Users()) {}

  void find() {
    const auto n = std::ssize(p_.schedule);
    for (int64_t x = 0; x < 2 * n; ++x) {
      Call& call = p_.schedule[CallId(x % n)];
      const auto queue = static_cast<size_t>(p_.segment(call).queue);
      const std::vector<Touch> touches = touches_.of(call);
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
  using PerQueue = std::array<int64_t, kQueues>;  // a position of a call, or kNone
  static constexpr PerQueue kNoCalls = [] {
    PerQueue none;
    none.fill(kNone);
    return none;
  }();
  // Of each byte: the last writer per queue, and the last reader per queue since then.
  struct Users {
    PerQueue writers = kNoCalls, readers = kNoCalls;
  };

  static void raise(PerQueue& a, const PerQueue& b) {
    for (size_t q = 0; q < kQueues; ++q) a[q] = std::max(a[q], b[q]);
  }

  // Returns the calls that x waits for, latest first: the last conflicting call of each other
  // queue, unless waiting for one of the others already implies it. Latest first, since a later
  // call's clock covers more.
  std::vector<int64_t> waits_of(int64_t x, size_t queue, const std::vector<Touch>& touches) {
    PerQueue conflicts = kNoCalls;
    for (const Touch& t : touches)
      users_.read(t.bytes, [&](const Users& u) {
        raise(conflicts, u.writers);
        if (t.writes) raise(conflicts, u.readers);
      });
    PerQueue& clock = clocks_[x];
    clock = kNoCalls;
    const auto wait = [&](size_t q, int64_t y) {
      raise(clock, clocks_[y]);
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

  // A writer has waited for all users before it, so a wait for the writer implies waits for them.
  void remember(int64_t x, size_t queue, const std::vector<Touch>& touches) {
    last_[queue] = x;
    Users writer;
    writer.writers[queue] = x;
    for (const Touch& t : touches)
      if (t.writes)
        users_.assign(t.bytes, writer);
      else
        users_.change(t.bytes, [&](Users& u) { u.readers[queue] = x; });
  }

  Program& p_;
  Touches touches_;
  std::vector<PerQueue> clocks_;  // of each call: the last call of each queue complete before it
  PerQueue last_;                 // last call of each queue
  ByteMap<Users> users_;
};

}  // namespace

void find_waits(Program& p) { Waits(p).find(); }

}  // namespace tessera

#include "compile/memory/waits.h"

#include <algorithm>
#include <array>
#include <vector>

#include "compile/memory/bytes.h"

namespace tessera {
namespace {

// Walks the schedule written twice in a row; positions count on in the second copy, so an entry
// of the second that points into the first is a wait for the step before.
class Waits {
 public:
  explicit Waits(Program& p)
      : p_(p), touches_(p), clocks_(2 * p.schedule.size()), last_(kNoCalls), users_(Users()) {}

  void find() {
    const auto n = static_cast<int64_t>(p_.schedule.size());
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
  // Of a byte: the last writer of each queue, and since then the last reader.
  struct Users {
    PerQueue writers = kNoCalls, readers = kNoCalls;
  };

  static void raise(PerQueue& a, const PerQueue& b) {
    for (size_t q = 0; q < kQueues; ++q) a[q] = std::max(a[q], b[q]);
  }

  // The calls x waits for, latest first: the last of each other queue in conflict with it, unless
  // one of the others waited for it already.
  std::vector<int64_t> waits_of(int64_t x, size_t queue, const std::vector<Touch>& touches) {
    PerQueue conflicts = kNoCalls;
    for (const Touch& t : touches)
      users_.read(t.bytes, [&](const Users& u) {
        raise(conflicts, u.writers);
        if (t.writes) raise(conflicts, u.readers);
      });
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

  // A writer waited for all users before it, so who waits for it waits for them.
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
  std::vector<PerQueue> clocks_;  // of each call: the last call of each queue over before it
  PerQueue last_;                 // of each queue
  ByteMap<Users> users_;
};

}  // namespace

void find_waits(Program& p) { Waits(p).find(); }

}  // namespace tessera

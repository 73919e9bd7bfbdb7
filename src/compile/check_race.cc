#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/error.h"
#include "compile/bytes.h"
#include "compile/check.h"

namespace tessera {
namespace {

using PerQueue =
    std::array<int64_t, kQueues>;  // a position of the schedule written twice, or kNone

void raise(PerQueue& a, const PerQueue& b) {
  for (size_t q = 0; q < kQueues; ++q) a[q] = std::max(a[q], b[q]);
}

// Something with bytes: frames first, then the scratch region of each queue.
struct Touch {
  size_t item;
  bool writes;
};

class Races {
 public:
  Races(const Program& p, int rank) : p_(p), rank_(rank), sharing_(sharing_frames(p)) {
    const size_t frames = p.frames.size();
    for (int q = 0; q < kQueues; ++q) {
      const auto queue = static_cast<Queue>(q);
      sharing_.push_back(frames_in(p, scratch_offset(p, queue), scratch_bytes(p, queue)));
      for (const FrameId f : sharing_.back())
        sharing_[static_cast<size_t>(f)].push_back(static_cast<FrameId>(sharing_.size() - 1));
    }
    PerQueue none;
    none.fill(kNone);
    readers_.assign(frames + kQueues, none);
    writers_ = readers_;
    clocks_.assign(2 * p.schedule.size(), none);
  }

  std::vector<Finding> find(const std::vector<int64_t>& order) {
    PerQueue last;
    last.fill(kNone);
    for (const int64_t x : order) {
      const auto queue = static_cast<size_t>(p_.segment(call(x)).queue);
      advance(x, last[queue]);
      for (const Touch& t : touches(x)) compare(x, queue, t);
      for (const Touch& t : touches(x)) (t.writes ? writers_ : readers_)[t.item][queue] = x;
      last[queue] = x;
    }
    return std::move(findings_);
  }

 private:
  int64_t length() const { return static_cast<int64_t>(p_.schedule.size()); }
  const Call& call(int64_t x) const { return p_.call(static_cast<CallId>(x % length())); }

  std::vector<Touch> touches(int64_t x) const {
    const Segment& s = p_.segment(call(x));
    std::vector<Touch> list;
    for (size_t i = 0; i < s.frames.size(); ++i)
      list.push_back({static_cast<size_t>(call(x).frames[i]), s.frames[i].access != Access::kRead});
    if (s.scratch_bytes > 0)
      list.push_back({p_.frames.size() + static_cast<size_t>(s.queue), true});
    return list;
  }

  // What is over before x: the one ahead in its queue, what it waits for, and what those waited
  // for.
  void advance(int64_t x, int64_t ahead) {
    PerQueue& clock = clocks_[static_cast<size_t>(x)];
    const auto wait = [&](int64_t y) {
      raise(clock, clocks_[static_cast<size_t>(y)]);
      int64_t& mine = clock[static_cast<size_t>(p_.segment(call(y)).queue)];
      mine = std::max(mine, y);
    };
    if (ahead != kNone) wait(ahead);
    for (const CallId y : call(x).after) wait(x < length() ? y : y + length());
    if (x >= length())
      for (const CallId y : call(x).before_step) wait(y);
  }

  void compare(int64_t x, size_t queue, const Touch& t) {
    const PerQueue& clock = clocks_[static_cast<size_t>(x)];
    for (const FrameId other : sharing_[t.item]) {
      const auto o = static_cast<size_t>(other);
      for (size_t q = 0; q < kQueues; ++q) {
        if (q == queue) continue;
        if (writers_[o][q] > clock[q]) say(x, writers_[o][q], t.item, o);
        if (t.writes && readers_[o][q] > clock[q]) say(x, readers_[o][q], t.item, o);
      }
    }
  }

  std::string item_name(size_t item) const {
    if (item < p_.frames.size()) return frame_name(p_, static_cast<FrameId>(item));
    return "the scratch of its queue";
  }

  void say(int64_t x, int64_t y, size_t mine, size_t its) {
    if (!said_.emplace(x % length(), y % length()).second) return;
    const auto name = [&](int64_t z) { return call_name(p_, static_cast<CallId>(z % length())); };
    std::string text = fmt::format("call {} touches {}", name(x), item_name(mine));
    text += fmt::format(", and call {} ", name(y));
    if (y < length() && x >= length()) text += "of the step before ";
    text += mine == its ? "too" : fmt::format("{} in the same bytes", item_name(its));
    findings_.push_back(
        {"race", text + ": nothing orders them", rank_, static_cast<CallId>(x % length())});
  }

  const Program& p_;
  int rank_;
  std::vector<std::vector<FrameId>> sharing_;  // of each item
  std::vector<PerQueue> readers_, writers_;    // of each item, the last of each queue
  std::vector<PerQueue> clocks_;               // of each position
  std::set<std::pair<int64_t, int64_t>> said_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> check_race(const Program& p, int rank, const std::vector<int64_t>& order) {
  return Races(p, rank).find(order);
}

}  // namespace tessera

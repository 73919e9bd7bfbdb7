// Finds the gap for a lifetime among those already placed. Buffers of a kind recur in every
// micro-batch at the same offset with disjoint lifetimes, so equal address ranges are stored once,
// with their lifetimes sorted; a range is tested by binary search. A query visits ranges, not
// lifetimes.
#include "compile/memory/gap_finder.h"

#include <algorithm>
#include <limits>

namespace tessera::compile {

void GapFinder::clear() {
  sorted_.clear();
  for (auto& lives : lives_) lives.clear();
}

void GapFinder::add(const Lifetime& life, int64_t end) {
  const OccupiedRange taken = {life.offset, end};
  auto at = std::lower_bound(sorted_.begin(), sorted_.end(), taken,
                             [](const Slot& a, const OccupiedRange& b) { return a.taken < b; });
  if (at == sorted_.end() || at->taken != taken)
    at = sorted_.insert(at, {taken, life.birth, life.death, sorted_.size()});
  at->first = std::min(at->first, life.birth);
  at->last = std::max(at->last, life.death);
  if (lives_.size() <= at->number) lives_.emplace_back();
  std::vector<Span>& lives = lives_[at->number];
  lives.insert(std::upper_bound(lives.begin(), lives.end(), Span{life.birth, life.death}),
               {life.birth, life.death});
}

// Returns true if `life` overlaps one of `lives`. The lifetimes of one range are disjoint, so they
// are sorted both by first and by last call.
bool GapFinder::meets(const std::vector<Span>& lives, const Lifetime& life) {
  const auto next = std::lower_bound(lives.begin(), lives.end(), life.birth,
                                     [](const Span& a, int64_t birth) { return a.second < birth; });
  return next != lives.end() && next->first <= life.death;
}

// Calls visit(offset, end) for each range that is used during `life`, in ascending order, until it
// returns true.
template <class Visit>
void GapFinder::each_taken(const Lifetime& life, const Visit& visit) const {
  for (const Slot& p : sorted_)
    if (life.birth <= p.last && life.death >= p.first && meets(lives_[p.number], life) &&
        visit(p.taken))
      return;
}

int64_t GapFinder::gap_for(const Lifetime& life, const std::vector<OccupiedRange>& blocked,
                           bool tightest) const {
  int64_t free_from = 0, best = -1, best_slack = std::numeric_limits<int64_t>::max();
  // Returns true if the gap before `t` is chosen. Advances past `t`.
  const auto pass = [&](const OccupiedRange& t) {
    const int64_t slack = t.first - free_from - life.bytes;
    if (slack >= 0 && slack < best_slack) {
      best_slack = slack;
      best = free_from;
      if (!tightest || slack == 0) return true;
    }
    free_from = std::max(free_from, t.second);
    return false;
  };
  // Merges two ascending lists: blocked ranges and placed ones.
  auto next = blocked.begin();
  bool done = false;
  each_taken(life, [&](const OccupiedRange& t) {
    while (!done && next != blocked.end() && *next < t) done = pass(*next++);
    return done = done || pass(t);
  });
  while (!done && next != blocked.end()) done = pass(*next++);
  return best >= 0 ? best : free_from;
}

}  // namespace tessera::compile

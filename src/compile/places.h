// Where lives were put so far, asked by those that come next (pack.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "compile/pack.h"

namespace tessera {

using Taken = std::pair<int64_t, int64_t>;  // offset, where the next may begin

// Where lives were put, each place once: many lives follow each other at one place, so there are
// few places to look at for each life.
class Places {
 public:
  void clear() {
    sorted_.clear();
    for (auto& lives : lives_) lives.clear();
  }

  // visit(offset, end) for each place that is taken while `life` is alive, rising, until it says
  // that it has seen enough.
  template <class Visit>
  void each_taken(const Life& life, const Visit& visit) const {
    for (const Place& p : sorted_)
      if (life.birth <= p.last && life.death >= p.first && meets(lives_[p.number], life) &&
          visit(p.taken))
        return;
  }

  void add(const Life& life, int64_t end) {
    const Taken taken = {life.offset, end};
    auto at = std::lower_bound(sorted_.begin(), sorted_.end(), taken,
                               [](const Place& a, const Taken& b) { return a.taken < b; });
    if (at == sorted_.end() || at->taken != taken)
      at = sorted_.insert(at, {taken, life.birth, life.death, sorted_.size()});
    at->first = std::min(at->first, life.birth);
    at->last = std::max(at->last, life.death);
    if (lives_.size() <= at->number) lives_.emplace_back();
    std::vector<Span>& lives = lives_[at->number];
    lives.insert(std::upper_bound(lives.begin(), lives.end(), Span{life.birth, life.death}),
                 {life.birth, life.death});
  }

 private:
  using Span = std::pair<int64_t, int64_t>;  // birth, death
  struct Place {
    Taken taken;
    int64_t first, last;  // birth and death
    size_t number;
  };

  // Lives of one place share no time, so they rise by birth and by death.
  static bool meets(const std::vector<Span>& lives, const Life& life) {
    const auto next =
        std::lower_bound(lives.begin(), lives.end(), life.birth,
                         [](const Span& a, int64_t birth) { return a.second < birth; });
    return next != lives.end() && next->first <= life.death;
  }

  std::vector<Place> sorted_;
  std::vector<std::vector<Span>> lives_;  // of each place, by its number
};

}  // namespace tessera

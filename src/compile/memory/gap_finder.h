// Finds the gap for the next lifetime among those already placed (pack.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "compile/memory/pack.h"

namespace tessera::compile {

using OccupiedRange = std::pair<int64_t, int64_t>;  // offset, and where the next may begin

// Equal address ranges are stored once: many lifetimes use the same range one after another, so
// there are few ranges to compare with a lifetime.
class GapFinder {
 public:
  void clear();
  // Adds a placed lifetime. Lifetimes of one range must be disjoint.
  void add(const Lifetime& life, int64_t end);

  // Returns the offset of the lowest (or the tightest) gap that fits the lifetime, between the
  // ranges used during it and `blocked`, which is in ascending order.
  int64_t gap_for(const Lifetime& life, const std::vector<OccupiedRange>& blocked,
                  bool tightest) const;

 private:
  using Span = std::pair<int64_t, int64_t>;  // birth, death
  struct Slot {
    OccupiedRange taken;
    int64_t first, last;  // birth and death
    size_t number;
  };

  template <class Visit>
  void each_taken(const Lifetime& life, const Visit& visit) const;
  static bool meets(const std::vector<Span>& lives, const Lifetime& life);

  std::vector<Slot> sorted_;
  std::vector<std::vector<Span>> lives_;  // per range, by its number
};

}  // namespace tessera::compile

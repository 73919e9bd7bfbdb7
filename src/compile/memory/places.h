// Where lives were put so far, and the gap that the next one goes into (pack.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "compile/memory/pack.h"

namespace tessera::compile {

using Taken = std::pair<int64_t, int64_t>;  // offset, where the next may begin

// Each place is kept once: many lives follow each other at one place, so there are few places to
// look at for each life.
class PlacedLives {
 public:
  void clear();
  // Lives of one place share no time.
  void add(const Life& life, int64_t end);

  // The lowest (or the tightest) gap that the life fits in, between what is taken while it is alive
  // and `blocked`, which rises.
  int64_t gap_for(const Life& life, const std::vector<Taken>& blocked, bool tightest) const;

 private:
  using Span = std::pair<int64_t, int64_t>;  // birth, death
  struct Place {
    Taken taken;
    int64_t first, last;  // birth and death
    size_t number;
  };

  template <class Visit>
  void each_taken(const Life& life, const Visit& visit) const;
  static bool meets(const std::vector<Span>& lives, const Life& life);

  std::vector<Place> sorted_;
  std::vector<std::vector<Span>> lives_;  // of each place, by its number
};

}  // namespace tessera::compile

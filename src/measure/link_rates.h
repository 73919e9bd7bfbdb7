// How fast the ranks of a world exchange what a run does: sums of gradients and parts of weights.
#pragma once

#include "comm/world.h"

namespace tessera::measure {

// bytes_per_s and latency_s of plan/links.h: with them a ring of n members takes
//   2 ((n - 1) / n · bytes / bytes_per_s + (n - 1) latency_s)
// for an all_reduce, as nearly as two figures can over the sizes that were measured.
struct LinkRate {
  double bytes_per_s = 0, latency_s = 0;
  bool measured() const { return bytes_per_s > 0; }
};

struct LinkRates {
  int64_t ranks_per_host = 1;
  LinkRate node;     // within hosts, all of them at once
  LinkRate network;  // between hosts, the ranks of a host all at once; bytes_per_s is their sum
};

// Collective. Ranks of a host are neighbours, and as many on each; throws Error where not.
LinkRates measure_links(comm::World& world);

// The best two figures for seconds measured by the bytes of an all_reduce of n members: the least
// squares of relative errors.
struct LinkSample {
  double bytes = 0, seconds = 0;
};
LinkRate fit_link(const std::vector<LinkSample>& samples, int64_t members);

}  // namespace tessera::measure

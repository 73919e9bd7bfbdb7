// Measures the links between the ranks of a world with all-reduces, as a training run uses them.
#pragma once

#include "comm/world.h"

namespace tessera::measure {

// bytes_per_s and latency_s as plan/links.h defines them. The time of a ring all-reduce with n
// members is modeled as
//   2 ((n - 1) / n · bytes / bytes_per_s + (n - 1) latency_s)
// and the two numbers are fitted to the measured message sizes.
struct LinkRate {
  double bytes_per_s = 0, latency_s = 0;
  bool measured() const { return bytes_per_s > 0; }
};

struct LinkRates {
  int64_t ranks_per_host = 1;
  LinkRate node;     // within hosts, measured on all hosts at once
  LinkRate network;  // between hosts, all ranks of a host at once; bytes_per_s is summed over them
};

// Measures all links. Collective: all ranks must call it. Throws Error unless the ranks of each
// host are consecutive and all hosts have the same number of ranks.
LinkRates measure_links(comm::World& world);

// The time of one all-reduce of `bytes`.
struct LinkSample {
  double bytes = 0, seconds = 0;
};
// Fits a LinkRate to all-reduces of `members` ranks by least squares of the relative errors.
LinkRate fit_link(const std::vector<LinkSample>& samples, int64_t members);

}  // namespace tessera::measure

// What two figures make of measured times of an all_reduce.
#include "measure/link_rates.h"

#include <gtest/gtest.h>

#include "comm/world.h"

namespace tessera::measure {
namespace {

// Of a ring of n members, as plan/links.h has it.
double ring_s(double bytes, double n, const LinkRate& r) {
  return 2 * ((n - 1) / n * bytes / r.bytes_per_s + (n - 1) * r.latency_s);
}

std::vector<LinkSample> samples_of(const LinkRate& rate, int64_t members) {
  std::vector<LinkSample> s;
  for (const double bytes : {4e3, 6e4, 5e5, 4e6, 3e7})
    s.push_back({bytes, ring_s(bytes, static_cast<double>(members), rate)});
  return s;
}

TEST(FitLink, FindsTheRateAndTheHopOfARing) {
  for (const int64_t members : {2, 3, 8})
    for (const LinkRate& rate : {LinkRate{1e9, 1e-4}, LinkRate{3e11, 4e-6}, LinkRate{5e9, 0}}) {
      const LinkRate found = fit_link(samples_of(rate, members), members);
      EXPECT_NEAR(found.bytes_per_s / rate.bytes_per_s, 1, 1e-6);
      EXPECT_NEAR(found.latency_s, rate.latency_s, 1e-9);
    }
}

// Small messages that take less than their share of the large ones', or large ones that take no
// longer than small ones: neither figure becomes negative.
TEST(FitLink, StaysAboveNothingWhateverWasMeasured) {
  const LinkRate steep = fit_link({{1e3, 1e-7}, {1e6, 1e-3}, {1e7, 2e-2}}, 2);
  EXPECT_GT(steep.bytes_per_s, 0);
  EXPECT_GE(steep.latency_s, 0);
  const LinkRate flat = fit_link({{1e3, 3e-3}, {1e6, 2e-3}, {1e7, 1e-3}}, 2);
  EXPECT_GT(flat.bytes_per_s, 0);
  EXPECT_GE(flat.latency_s, 0);
  EXPECT_TRUE(flat.measured());
}

TEST(MeasureLinks, OneRankHasNone) {
  const LinkRates rates = measure_links(*comm::self_world());
  EXPECT_EQ(rates.ranks_per_host, 1);
  EXPECT_FALSE(rates.node.measured());
  EXPECT_FALSE(rates.network.measured());
}

}  // namespace
}  // namespace tessera::measure

// Measures bandwidth and latency of links by all-reduces of several sizes: the two parameters of
// the alpha-beta model (Hockney 1994) are fitted to the times.
#include "measure/link_rates.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "comm/backoff.h"

namespace tessera::measure {
namespace {

constexpr int64_t kSizes[] = {1 << 12, 1 << 16, 1 << 19, 1 << 22, 1 << 25};  // bytes
constexpr int kTimes = 9;  // repetitions per size; the median counts

std::vector<LinkSample> measure(comm::World& world, comm::Communicator& group) {
  std::vector<LinkSample> samples;
  std::vector<float> data(static_cast<size_t>(kSizes[std::size(kSizes) - 1]) / sizeof(float), 1.0f);
  for (const int64_t bytes : kSizes) {
    const TensorView x{data.data(), DType::kF32, {bytes / static_cast<int64_t>(sizeof(float))}};
    std::vector<double> seconds;
    for (int i = 0; i <= kTimes; ++i) {
      world.barrier();
      const double began = steady_s();
      // A maximum leaves the data unchanged, so all repetitions have the same work.
      comm::wait_for(group, group.all_reduce(x, x, comm::Reduction::kMax));
      if (i > 0) seconds.push_back(steady_s() - began);
    }
    // The median of the repetitions, then the mean over the ranks.
    std::nth_element(seconds.begin(), seconds.begin() + kTimes / 2, seconds.end());
    std::vector<double> all = {seconds[kTimes / 2]};
    world.all_reduce(all, comm::Reduction::kSum);
    samples.push_back({static_cast<double>(bytes), all[0] / static_cast<double>(world.size())});
  }
  return samples;
}

LinkRate measured(comm::World& world, const std::vector<int64_t>& members) {
  if (members.size() < 2) return {};
  const std::unique_ptr<comm::Communicator> group = world.group(members);
  return fit_link(measure(world, *group), std::ssize(members));
}

}  // namespace

// Fits seconds = a * bytes + b by least squares of the relative errors, which gives small messages
// (the latency) the same weight as large ones. Both a and b must be positive. The sums are those of
// the normal equations after the division by the measured seconds.
LinkRate fit_link(const std::vector<LinkSample>& samples, int64_t members) {
  double xx = 0, xy = 0, yy = 0, x1 = 0, y1 = 0;
  for (const LinkSample& s : samples) {
    const double x = s.bytes / s.seconds, y = 1 / s.seconds;
    xx += x * x, xy += x * y, yy += y * y, x1 += x, y1 += y;
  }
  const double determinant = xx * yy - xy * xy;
  double a = (x1 * yy - y1 * xy) / determinant, b = (y1 * xx - x1 * xy) / determinant;
  // A negative latency is noise: the line is fitted again through the origin.
  if (b < 0) b = 0, a = x1 / xx;
  if (a <= 0) a = samples.back().seconds / samples.back().bytes, b = 0;
  const auto n = static_cast<double>(members);
  // A ring all-reduce of n members sends 2 (n - 1) / n of the bytes in 2 (n - 1) steps.
  return {2 * (n - 1) / n / a, b / (2 * (n - 1))};
}

LinkRates measure_links(comm::World& world) {
  LinkRates rates;
  std::vector<int64_t> here;
  const std::string& host = world.host(world.rank());
  for (int64_t r = 0; r < world.size(); ++r)
    if (world.host(r) == host) here.push_back(r);
  const auto k = std::ssize(here);
  // The maximum of k and of -k give the largest and the smallest number of ranks per host at once.
  std::vector<double> most = {static_cast<double>(k), static_cast<double>(-k)};
  world.all_reduce(most, comm::Reduction::kMax);
  if (most[0] != -most[1] || here.back() - here.front() + 1 != k || here.front() % k != 0)
    throw Error(
        "measuring links: host {} has {} ranks, another host has {:.0f}; expected the same number "
        "of consecutive ranks on each host. Start mpirun with --map-by ppr:N:node.",
        host, k, k == static_cast<int64_t>(most[0]) ? -most[1] : most[0]);
  rates.ranks_per_host = k;
  rates.node = measured(world, here);
  // One rank of each host, the one at this rank's position; all k groups run at once and share the
  // network.
  std::vector<int64_t> across;
  for (int64_t r = world.rank() % k; r < world.size(); r += k) across.push_back(r);
  rates.network = measured(world, across);
  rates.network.bytes_per_s *= static_cast<double>(k);
  return rates;
}

}  // namespace tessera::measure

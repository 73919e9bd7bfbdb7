// Measures all ranks and their links, and names those that are slower than their peers. Medians are
// the reference, since slow ranks or links are few.
#include "measure/rank_rates.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/median.h"
#include "comm/backoff.h"
#include "kernels/matmul.h"
#include "tensor/tensor.h"

namespace tessera::measure {
namespace {

constexpr int64_t kMessageBytes = 1 << 20;
constexpr int kMessages = 4;  // exchanges per pair; the first one is not counted
constexpr int64_t kEveryPair = 32;
constexpr double kSlowRank = 0.7, kSlowLink = 0.5;

// Exchanges a message there and back, the lower rank first, and returns the best rate. A round trip
// needs one clock only.
double exchange(comm::Communicator& all, int64_t own, int64_t peer, const TensorView& x) {
  double best = 0;
  for (int i = 0; i < kMessages; ++i) {
    const double began = steady_s();
    comm::wait_for(all, own < peer ? all.send(x, peer) : all.receive(x, peer));
    comm::wait_for(all, own < peer ? all.receive(x, peer) : all.send(x, peer));
    const double rate = 2.0 * kMessageBytes / (steady_s() - began);
    if (i > 0) best = std::max(best, rate);
  }
  return best;
}

const std::string& host_of(const RankRates& r, int64_t rank) { return r.hosts[rank]; }

std::string rate_text(double bytes_per_s) { return fmt::format("{:.2f} GB/s", bytes_per_s / 1e9); }

void slow_ranks(const RankRates& r, std::vector<std::string>& out) {
  const double middle = median(r.flops);
  for (size_t i = 0; i < r.flops.size(); ++i)
    if (r.flops[i] < kSlowRank * middle)
      out.push_back(fmt::format("rank {} on {} multiplies at {:.0f} GF/s, the median is {:.0f}", i,
                                r.hosts[i], r.flops[i] / 1e9, middle / 1e9));
}

// Finds slow hosts: the median over the pairs of a host is compared with the median of all hosts.
// One slow partner does not make a host slow.
void slow_hosts(const RankRates& r, std::vector<std::string>& out) {
  std::map<std::string, std::vector<double>> links;
  for (const PairRate& p : r.pairs) {
    if (host_of(r, p.a) == host_of(r, p.b)) continue;
    links[host_of(r, p.a)].push_back(p.bytes_per_s);
    links[host_of(r, p.b)].push_back(p.bytes_per_s);
  }
  std::vector<double> medians;
  for (const auto& [host, rates] : links) medians.push_back(median(rates));
  const double middle = median(medians);
  for (const auto& [host, rates] : links)
    if (median(rates) < kSlowLink * middle)
      out.push_back(fmt::format("the links of host {} reach {}, the median of all hosts is {}",
                                host, rate_text(median(rates)), rate_text(middle)));
}

void slow_pairs(const RankRates& r, std::vector<std::string>& out) {
  std::vector<double> inside;
  for (const PairRate& p : r.pairs)
    if (host_of(r, p.a) == host_of(r, p.b)) inside.push_back(p.bytes_per_s);
  const double middle = median(inside);
  for (const PairRate& p : r.pairs)
    if (host_of(r, p.a) == host_of(r, p.b) && p.bytes_per_s < kSlowLink * middle)
      out.push_back(fmt::format("ranks {} and {} on {} exchange {}, the median within hosts is {}",
                                p.a, p.b, host_of(r, p.a), rate_text(p.bytes_per_s),
                                rate_text(middle)));
}

std::string spread(const char* what, const std::vector<double>& x, double unit, const char* name) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  return fmt::format("{} {:.2f} to {:.2f} {}, median {:.2f}", what, *low / unit, *high / unit, name,
                     median(x) / unit);
}

}  // namespace

std::vector<Round> meeting_rounds(int64_t ranks) {
  std::vector<Round> rounds;
  if (ranks > kEveryPair) {
    // All pairs would need n - 1 rounds. Pairs at distances 1, 2, 4, … involve every rank and need
    // at most 2 log2(n) + 2.
    for (int64_t apart = 1; apart < ranks; apart *= 2) {
      // Inner ranks of a chain have two partners, so every distance needs two rounds.
      Round even, odd;
      for (int64_t a = 0; a + apart < ranks; ++a)
        (a / apart % 2 == 0 ? even : odd).emplace_back(a, a + apart);
      rounds.push_back(std::move(even));
      if (!odd.empty()) rounds.push_back(std::move(odd));
    }
    return rounds;
  }
  // The rotation method of round-robin tournaments: one rank keeps its seat, and the others rotate
  // by one seat per round (with an odd number, the rank opposite the empty seat pauses). After
  // seats - 1 rounds every pair has been in a round once.
  const int64_t seats = ranks + ranks % 2;
  std::vector<int64_t> table(seats);
  std::iota(table.begin(), table.end(), 0);
  for (int64_t r = 0; r + 1 < seats; ++r) {
    Round round;
    for (size_t i = 0; i < table.size() / 2; ++i) {
      const auto [a, b] = std::minmax(table[i], table[table.size() - 1 - i]);
      if (b < ranks) round.emplace_back(a, b);
    }
    rounds.push_back(std::move(round));
    std::rotate(table.begin() + 1, table.end() - 1, table.end());
  }
  return rounds;
}

RankRates measure_ranks(comm::World& world, const CpuFeatures& cpu, int threads) {
  const int64_t n = world.size(), own = world.rank();
  RankRates r;
  for (int64_t i = 0; i < n; ++i) r.hosts.push_back(world.host(i));
  r.flops.assign(n, 0);
  // All ranks measure at the same time, because ranks of a host share memory and power limits.
  world.barrier();
  r.flops[own] = kernels::measure_matrix_rate(DType::kF32, cpu, threads);
  world.all_reduce(r.flops, comm::Reduction::kSum);
  std::vector<int64_t> everyone(n);
  std::iota(everyone.begin(), everyone.end(), 0);
  const std::unique_ptr<comm::Communicator> all = world.group(everyone);
  std::vector<float> message(kMessageBytes / sizeof(float));
  const TensorView x{message.data(), DType::kF32, {std::ssize(message)}};
  std::vector<double> measured;
  for (const Round& round : meeting_rounds(n)) {
    world.barrier();
    // Every rank adds an entry for every pair, so that the sum over the ranks fills the list.
    for (const auto& [a, b] : round) {
      r.pairs.push_back({a, b, 0});
      const bool mine = own == a || own == b;
      const double rate = mine ? exchange(*all, own, own == a ? b : a, x) : 0;
      measured.push_back(own == a ? rate : 0);
    }
  }
  if (!measured.empty()) world.all_reduce(measured, comm::Reduction::kSum);
  for (size_t i = 0; i < r.pairs.size(); ++i) r.pairs[i].bytes_per_s = measured[i];
  return r;
}

std::vector<std::string> outliers(const RankRates& rates) {
  std::vector<std::string> out;
  slow_ranks(rates, out);
  slow_hosts(rates, out);
  slow_pairs(rates, out);
  return out;
}

std::vector<std::string> summary_of(const RankRates& rates) {
  std::vector<double> inside, between;
  for (const PairRate& p : rates.pairs)
    (host_of(rates, p.a) == host_of(rates, p.b) ? inside : between).push_back(p.bytes_per_s);
  const std::set<std::string> hosts(rates.hosts.begin(), rates.hosts.end());
  std::vector<std::string> out = {
      fmt::format("{} ranks on {} host{}", rates.hosts.size(), hosts.size(),
                  hosts.size() > 1 ? "s" : ""),
      spread("matrix rate", rates.flops, 1e9, "GF/s (f32, all at once)")};
  if (!inside.empty()) out.push_back(spread("within a host", inside, 1e9, "GB/s"));
  if (!between.empty()) out.push_back(spread("between hosts", between, 1e9, "GB/s"));
  return out;
}

}  // namespace tessera::measure

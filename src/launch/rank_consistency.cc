// Finds ranks that differ from the majority in program version or configuration, and hosts whose
// clock differs from the median. The majority decides what is normal, so that the error names the
// odd rank and not rank 0 against all others.
#include "launch/rank_consistency.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/config.h"
#include "base/error.h"
#include "base/tree.h"
#include "launch/rank_monitor.h"

namespace tessera::launch {
namespace {

constexpr double kClocksApart = 2;  // seconds; NTP keeps clocks within milliseconds

// The ranks that have each value, and the most common value (on a tie, the value of the lowest
// rank).
struct Groups {
  std::map<std::string, std::vector<size_t>> of;
  std::string most;
};

Groups group(std::span<const RankFacts> ranks, std::string RankFacts::*member) {
  Groups g;
  for (size_t i = 0; i < ranks.size(); ++i) g.of[ranks[i].*member].push_back(i);
  const std::vector<size_t>* best = nullptr;
  for (const auto& [value, members] : g.of) {
    const bool more = best == nullptr || members.size() > best->size() ||
                      (members.size() == best->size() && members[0] < (*best)[0]);
    if (!more) continue;
    best = &members;
    g.most = value;
  }
  return g;
}

// Returns "rank 3 on n02", "ranks 2 and 3 on n02", "ranks 2-5".
std::string who(std::span<const RankFacts> ranks, const std::vector<size_t>& members) {
  std::vector<int> numbers;
  bool one_host = true;
  for (const size_t i : members) {
    numbers.push_back(ranks[i].rank);
    one_host = one_host && ranks[i].host == ranks[members[0]].host;
  }
  return name_ranks(numbers) + (one_host ? " on " + ranks[members[0]].host : "");
}

std::string shown(const std::string& value) { return value.empty() ? "nothing" : value; }

std::string differing_keys(const std::string& found, const std::string& wanted) {
  std::string out;
  const auto changes = differences(parse_json(wanted, "config"), parse_json(found, "config"));
  for (const Change& c : changes)
    out += fmt::format("\n    {} = {}, the others {}", c.path, shown(c.after), shown(c.before));
  return out;
}

void compare_clocks(std::span<const RankFacts> ranks, RankConsistency& out) {
  std::vector<double> sorted;
  for (const RankFacts& r : ranks) sorted.push_back(r.clock_s);
  // The median: one wrong clock does not move it.
  std::nth_element(sorted.begin(), sorted.begin() + (sorted.size() - 1) / 2, sorted.end());
  const double middle = sorted[(sorted.size() - 1) / 2];
  std::map<std::string, double> by_host;
  // One warning per host: its ranks share the clock.
  for (const RankFacts& r : ranks)
    if (std::abs(r.clock_s - middle) > kClocksApart) by_host.emplace(r.host, r.clock_s - middle);
  for (const auto& [host, apart] : by_host)
    out.warnings.push_back(
        fmt::format("the clock of {} is {:.0f} s {} those of the other hosts, so times in its log "
                    "lines are shifted. Training does not depend on clocks; run `timedatectl` on "
                    "that host to check its time synchronization",
                    host, std::abs(apart), apart > 0 ? "ahead of" : "behind"));
}

}  // namespace

RankConsistency compare(std::span<const RankFacts> ranks) {
  CHECK(!ranks.empty(), "no ranks to compare");
  RankConsistency out;
  compare_clocks(ranks, out);
  const Groups versions = group(ranks, &RankFacts::version);
  for (const auto& [version, members] : versions.of) {
    if (version == versions.most || !out.error.empty()) continue;
    out.rank = ranks[members[0]].rank;
    out.error = fmt::format(
        "{} {} tessera {}, the others {}. Install the same program on all hosts and start again",
        who(ranks, members), members.size() > 1 ? "run" : "runs", shown(version), versions.most);
  }
  // Different versions may have different keys, so their configurations are not compared.
  if (!out.error.empty()) return out;
  const Groups configs = group(ranks, &RankFacts::config);
  for (const auto& [config, members] : configs.of) {
    if (config == configs.most || !out.error.empty()) continue;
    out.rank = ranks[members[0]].rank;
    out.error = fmt::format(
        "{} {} another configuration:{}\n  Give all hosts the same run file and start again",
        who(ranks, members), members.size() > 1 ? "have" : "has",
        differing_keys(config, configs.most));
  }
  return out;
}

std::string to_text(const RankFacts& facts) {
  Tree t;
  t.set("rank", Tree(int64_t{facts.rank}));
  t.set("host", Tree(facts.host));
  t.set("version", Tree(facts.version));
  t.set("config", Tree(facts.config));
  t.set("clock_s", Tree(facts.clock_s));
  return to_json(t);
}

RankFacts parse_facts(const std::string& text) {
  const Tree t = parse_json(text, "facts of a rank");
  RankFacts out;
  int64_t rank = 0;
  const auto read = [&](const char* name, auto& value) {
    const Tree* member = t.find(name);
    if (member == nullptr) throw Error("facts of a rank: '{}' is missing", name);
    read_value(*member, value, SourceLocation{"facts of a rank", name});
  };
  read("rank", rank);
  read("host", out.host);
  read("version", out.version);
  read("config", out.config);
  read("clock_s", out.clock_s);
  out.rank = static_cast<int>(rank);
  return out;
}

}  // namespace tessera::launch

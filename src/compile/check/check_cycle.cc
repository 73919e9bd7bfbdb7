// Checks that no ranks wait for each other: a topological sort (Kahn 1962) of the calls of all
// ranks over two steps. A transfer is one node for all its members, since it runs only when all
// have reached it. If nodes remain, each waits for another one of them, so following the waits
// finds a cycle.
#include <algorithm>
#include <array>
#include <map>
#include <queue>
#include <utility>

#include "base/error.h"
#include "compile/check/check_parts.h"

namespace tessera::compile {
namespace {

// One end of a message or collective.
struct Point {
  int rank = 0;
  CallId call = kNone;
};
// The waits of all ranks over two steps. A message or collective is one node shared by its members.
class Waits {
 public:
  Waits(const std::vector<const Program*>& ranks, const ChannelNames& names) : ranks_(ranks) {
    number(names);
    for (int r = 0; r < std::ssize(ranks); ++r) connect(r, names[r]);
  }

  // Returns for each rank its positions in an order that can run, the earliest in issue order
  // first. It is shorter than the schedule if there is a cycle.
  std::vector<std::vector<int64_t>> order() {
    std::vector<size_t> missing(members_.size());
    std::vector<std::vector<int>> next(members_.size());
    // Ordered by position, then node, so that all ranks advance at the same pace.
    std::priority_queue<std::pair<int64_t, int>, std::vector<std::pair<int64_t, int>>,
                        std::greater<>>
        ready;
    for (int n = 0; n < std::ssize(members_); ++n) {
      missing[n] = before_[n].size();
      for (const int b : before_[n]) next[b].push_back(n);
      if (missing[n] == 0) ready.emplace(members_[n][0].second, n);
    }
    std::vector<std::vector<int64_t>> order(ranks_.size());
    done_.assign(members_.size(), false);
    while (!ready.empty()) {
      const int n = ready.top().second;
      ready.pop();
      done_[n] = true;
      for (const auto& [rank, at] : members_[n]) order[rank].push_back(at);
      for (const int x : next[n])
        if (--missing[x] == 0) ready.emplace(members_[x][0].second, x);
    }
    return order;
  }

  // Call after order(). Returns the nodes of one cycle as (rank, call), each waiting for the next
  // one; empty if all can run.
  std::vector<Point> cycle() const {
    const auto stuck = std::find(done_.begin(), done_.end(), false);
    if (stuck == done_.end()) return {};
    std::vector<int> path;
    auto at = static_cast<int>(stuck - done_.begin());
    // Every stuck node waits for a stuck node, so the walk must revisit one.
    while (std::find(path.begin(), path.end(), at) == path.end()) {
      path.push_back(at);
      for (const int b : before_[at])
        if (!done_[b]) at = b;
    }
    std::vector<Point> points;
    for (auto i = std::find(path.begin(), path.end(), at); i != path.end(); ++i) {
      const auto& [rank, position] = members_[*i][0];
      points.push_back({rank, CallId(position % length(rank))});
    }
    return points;
  }

 private:
  int64_t length(int rank) const { return std::ssize(ranks_[rank]->schedule); }
  int& node(int rank, int64_t at) { return node_[rank][at]; }

  void number(const ChannelNames& names) {
    std::map<std::pair<std::string, int64_t>, int> events;  // channel, index within it
    for (int r = 0; r < std::ssize(ranks_); ++r) {
      std::map<std::string, int64_t> seen;
      const int64_t n = length(r);
      node_.emplace_back(2 * n);
      for (int64_t x = 0; x < 2 * n; ++x) {
        const std::string& channel = names[r][CallId(x % n)];
        auto id = static_cast<int>(members_.size());
        if (!channel.empty()) id = events.try_emplace({channel, seen[channel]++}, id).first->second;
        if (id == std::ssize(members_)) members_.emplace_back();
        members_[id].emplace_back(r, x);
        node_[r][x] = id;
      }
    }
    before_.resize(members_.size());
  }

  void connect(int rank, const IdVector<CallId, std::string>& channels) {
    const Program& p = *ranks_[rank];
    const int64_t n = length(rank);
    EnumArray<Queue, int64_t> last;
    last.fill(kNone);
    int64_t transfer = kNone;
    for (int64_t x = 0; x < 2 * n; ++x) {
      const Call& call = p.call(CallId(x % n));
      auto& before = before_[node(rank, x)];
      int64_t& queue = last[p.segment(call).queue];
      if (queue != kNone) before.push_back(node(rank, queue));
      queue = x;
      // One order of transfers per rank, as NCCL needs: a transfer also waits for the one before
      // it.
      if (p.ordered_transfers && !channels[CallId(x % n)].empty()) {
        if (transfer != kNone) before.push_back(node(rank, transfer));
        transfer = x;
      }
      for (const CallId y : call.after) before.push_back(node(rank, y.number() + (x < n ? 0 : n)));
      if (x >= n)
        for (const CallId y : call.before_step) before.push_back(node(rank, y.number()));
    }
  }

  const std::vector<const Program*>& ranks_;
  std::vector<std::vector<int>> node_;                         // per rank and position
  std::vector<std::vector<std::pair<int, int64_t>>> members_;  // per node: rank, position
  std::vector<std::vector<int>> before_;                       // per node
  std::vector<bool> done_;
};

Finding cycle_finding(const std::vector<const Program*>& ranks, const std::vector<Point>& cycle) {
  std::string text;
  for (const Point& p : cycle)
    text += fmt::format("rank {} {} waits for ", p.rank, call_name(*ranks[p.rank], p.call));
  return {"cycle", text + "the first", cycle[0].rank, cycle[0].call};
}

}  // namespace

std::vector<Finding> check_cycle(const std::vector<const Program*>& ranks,
                                 const ChannelNames& names, RunOrder& order) {
  Waits waits(ranks, names);
  order = waits.order();
  const std::vector<Point> cycle = waits.cycle();
  if (cycle.empty()) return {};
  return {cycle_finding(ranks, cycle)};
}

}  // namespace tessera::compile

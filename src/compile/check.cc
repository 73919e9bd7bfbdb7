#include "compile/check.h"

#include <algorithm>
#include <array>
#include <map>
#include <queue>
#include <utility>

#include "base/error.h"
#include "compile/call_list.h"
#include "ir/verify.h"

namespace tessera {
namespace {

// One end of a message or collective.
struct Point {
  int rank = 0;
  CallId call = kNone;
};
using Channel = std::map<int, std::vector<CallId>>;  // rank → its calls, in issue order

// Which line of events a call belongs to, the same text on all its members; empty for a call that
// concerns nobody else. Programs of a mesh of one that name a group are taken by its name.
std::string channel_of(const Mesh& mesh, const Program& p, const Call& c, int64_t rank) {
  const Wire& w = c.wire;
  if (w.over.empty() || p.mesh.ranks() == 1) return w.over;
  const Queue queue = p.segment(c).queue;
  if (w.over.starts_with("stage:")) {
    Coordinates peer = coordinates_of(mesh, rank);
    peer[AxisKind::kPipeline] = std::stoll(w.over.substr(6));
    const int64_t other = rank_of(mesh, peer);
    const bool forward = queue == Queue::kSendForward || queue == Queue::kReceiveForward;
    const bool sends = w.operation == "send";
    return fmt::format("{} from rank {} to {}", forward ? "forward" : "backward",
                       sends ? rank : other, sends ? other : rank);
  }
  if (group_size(mesh, w.over) == 1) return "";
  return fmt::format("{} of ranks {}", w.over, fmt::join(group_of(mesh, w.over, rank), ","));
}

// Ranks of one stage that run one program stand for each other: then the list has one a stage, and
// what they do among themselves matches by itself.
Mesh mesh_of(const std::vector<const Program*>& ranks) {
  Mesh mesh = ranks[0]->mesh;
  if (static_cast<int64_t>(ranks.size()) == mesh.ranks()) return mesh;
  Mesh stages;
  stages[AxisKind::kPipeline] = mesh[AxisKind::kPipeline];
  return stages;
}

// Of each rank, the channel of each call.
using Names = std::vector<std::vector<std::string>>;

Names names_of(const std::vector<const Program*>& ranks) {
  Names names;
  const Mesh mesh = mesh_of(ranks);
  for (size_t r = 0; r < ranks.size(); ++r) {
    names.emplace_back();
    for (const Call& c : ranks[r]->schedule)
      names.back().push_back(channel_of(mesh, *ranks[r], c, static_cast<int64_t>(r)));
  }
  return names;
}

std::map<std::string, Channel> channels_of(const Names& names) {
  std::map<std::string, Channel> channels;
  for (size_t r = 0; r < names.size(); ++r)
    for (size_t c = 0; c < names[r].size(); ++c)
      if (!names[r][c].empty())
        channels[names[r][c]][static_cast<int>(r)].push_back(static_cast<CallId>(c));
  return channels;
}

std::string wire_text(const Wire& w) {
  return fmt::format("{} of {} ({} bytes)", w.operation, w.label, w.bytes);
}

bool partners(const Wire& a, const Wire& b) {
  const bool message = a.operation == "send" || a.operation == "receive";
  const std::string_view wanted =
      message ? (a.operation == "send" ? "receive" : "send") : std::string_view(a.operation);
  return b.operation == wanted && a.label == b.label && a.bytes == b.bytes;
}

// The stage that a message of this queue comes from or goes to.
std::string peer_of(const Program& p, Queue queue) {
  const int64_t stages = p.mesh[AxisKind::kPipeline];
  const bool ahead = queue == Queue::kSendForward || queue == Queue::kReceiveBackward;
  return fmt::format("stage:{}", (p.stage + (ahead ? 1 : stages - 1)) % stages);
}

// What each call says of its communication against the ops of its segment, and that it waits for
// nothing that is issued after it.
void check_facts(const Program& p, int rank, std::vector<Finding>& findings) {
  for (CallId id = 0; id < static_cast<CallId>(p.schedule.size()); ++id) {
    const Call& c = p.call(id);
    for (const CallId y : c.after)
      if (y >= id)
        findings.push_back({"cycle",
                            fmt::format("call {} waits for {}, which is issued after it",
                                        call_name(p, id), call_name(p, y)),
                            rank, id});
    const Segment& s = p.segment(c);
    if (s.ops.empty()) continue;
    Wire wanted = wire_of(p, c);
    if (s.queue >= Queue::kSendForward) wanted.over = peer_of(p, s.queue);
    if (wanted != c.wire)
      findings.push_back(
          {"match",
           fmt::format("call {} says {} over '{}', its ops do {} over '{}'", call_name(p, id),
                       wire_text(c.wire), c.wire.over, wire_text(wanted), wanted.over),
           rank, id});
  }
}

// The first index at which two members of a channel disagree.
void match_members(const std::vector<const Program*>& ranks, const std::string& name,
                   const Channel& channel, std::vector<Finding>& findings) {
  const auto& [first, calls] = *channel.begin();
  if (channel.size() == 1) {
    findings.push_back({"match",
                        fmt::format("{} on channel {} has no partner on any rank",
                                    call_name(*ranks[static_cast<size_t>(first)], calls[0]), name),
                        first, calls[0]});
    return;
  }
  for (auto other = std::next(channel.begin()); other != channel.end(); ++other) {
    const Program &p = *ranks[static_cast<size_t>(first)],
                  &q = *ranks[static_cast<size_t>(other->first)];
    const size_t both = std::min(calls.size(), other->second.size());
    size_t i = 0;
    while (i < both && partners(p.call(calls[i]).wire, q.call(other->second[i]).wire)) ++i;
    if (i == calls.size() && i == other->second.size()) continue;
    const auto say = [&](const Program& of, const std::vector<CallId>& list) {
      if (i >= list.size()) return std::string("nothing");
      return fmt::format("{}: {}", call_name(of, list[i]), wire_text(of.call(list[i]).wire));
    };
    findings.push_back({"match",
                        fmt::format("channel {}, number {}: rank {} has {}; rank {} has {}", name,
                                    i, first, say(p, calls), other->first, say(q, other->second)),
                        first, i < calls.size() ? calls[i] : kNone});
  }
}

// The waits of all ranks over two steps. A message or collective is one node of all its members.
class Waits {
 public:
  Waits(const std::vector<const Program*>& ranks, const Names& names) : ranks_(ranks) {
    number(names);
    for (size_t r = 0; r < ranks.size(); ++r) connect(static_cast<int>(r));
  }

  // For each rank its positions in an order that can run; the earliest of the issue order first.
  // Shorter than the schedules where there is a cycle.
  std::vector<std::vector<int64_t>> order() {
    std::vector<size_t> missing(members_.size());
    std::vector<std::vector<int>> next(members_.size());
    // Position, then node: ranks proceed side by side.
    std::priority_queue<std::pair<int64_t, int>, std::vector<std::pair<int64_t, int>>,
                        std::greater<>>
        ready;
    for (size_t n = 0; n < members_.size(); ++n) {
      missing[n] = before_[n].size();
      for (const int b : before_[n]) next[static_cast<size_t>(b)].push_back(static_cast<int>(n));
      if (missing[n] == 0) ready.emplace(members_[n][0].second, static_cast<int>(n));
    }
    std::vector<std::vector<int64_t>> order(ranks_.size());
    done_.assign(members_.size(), false);
    while (!ready.empty()) {
      const auto n = static_cast<size_t>(ready.top().second);
      ready.pop();
      done_[n] = true;
      for (const auto& [rank, at] : members_[n]) order[static_cast<size_t>(rank)].push_back(at);
      for (const int x : next[n])
        if (--missing[static_cast<size_t>(x)] == 0)
          ready.emplace(members_[static_cast<size_t>(x)][0].second, x);
    }
    return order;
  }

  // After order(): the nodes of one cycle, each waiting for the one behind it, as (rank, call);
  // empty if all can run.
  std::vector<Point> cycle() const {
    const auto stuck = std::find(done_.begin(), done_.end(), false);
    if (stuck == done_.end()) return {};
    std::vector<int> path;
    auto at = static_cast<int>(stuck - done_.begin());
    // Every stuck node waits for a stuck node, so this walk returns to itself.
    while (std::find(path.begin(), path.end(), at) == path.end()) {
      path.push_back(at);
      for (const int b : before_[static_cast<size_t>(at)])
        if (!done_[static_cast<size_t>(b)]) at = b;
    }
    std::vector<Point> points;
    for (auto i = std::find(path.begin(), path.end(), at); i != path.end(); ++i) {
      const auto& [rank, position] = members_[static_cast<size_t>(*i)][0];
      points.push_back({rank, static_cast<CallId>(position % length(rank))});
    }
    return points;
  }

 private:
  int64_t length(int rank) const {
    return static_cast<int64_t>(ranks_[static_cast<size_t>(rank)]->schedule.size());
  }
  int& node(int rank, int64_t at) {
    return node_[static_cast<size_t>(rank)][static_cast<size_t>(at)];
  }

  void number(const Names& names) {
    std::map<std::pair<std::string, int64_t>, int> events;  // channel, how manieth
    for (size_t r = 0; r < ranks_.size(); ++r) {
      std::map<std::string, int64_t> seen;
      const auto n = static_cast<int64_t>(ranks_[r]->schedule.size());
      node_.emplace_back(static_cast<size_t>(2 * n));
      for (int64_t x = 0; x < 2 * n; ++x) {
        const std::string& channel = names[r][static_cast<size_t>(x % n)];
        auto id = static_cast<int>(members_.size());
        if (!channel.empty()) id = events.try_emplace({channel, seen[channel]++}, id).first->second;
        if (id == static_cast<int>(members_.size())) members_.emplace_back();
        members_[static_cast<size_t>(id)].emplace_back(static_cast<int>(r), x);
        node_[r][static_cast<size_t>(x)] = id;
      }
    }
    before_.resize(members_.size());
  }

  void connect(int rank) {
    const Program& p = *ranks_[static_cast<size_t>(rank)];
    const int64_t n = length(rank);
    std::array<int64_t, kQueues> last;
    last.fill(kNone);
    for (int64_t x = 0; x < 2 * n; ++x) {
      const Call& call = p.call(static_cast<CallId>(x % n));
      auto& before = before_[static_cast<size_t>(node(rank, x))];
      int64_t& queue = last[static_cast<size_t>(p.segment(call).queue)];
      if (queue != kNone) before.push_back(node(rank, queue));
      queue = x;
      for (const CallId y : call.after) before.push_back(node(rank, x < n ? y : y + n));
      if (x >= n)
        for (const CallId y : call.before_step) before.push_back(node(rank, y));
    }
  }

  const std::vector<const Program*>& ranks_;
  std::vector<std::vector<int>> node_;                         // of each rank's position
  std::vector<std::vector<std::pair<int, int64_t>>> members_;  // of each node: rank, position
  std::vector<std::vector<int>> before_;                       // of each node
  std::vector<bool> done_;
};

Finding cycle_finding(const std::vector<const Program*>& ranks, const std::vector<Point>& cycle) {
  std::string text;
  for (const Point& p : cycle)
    text += fmt::format("rank {} {} waits for ", p.rank,
                        call_name(*ranks[static_cast<size_t>(p.rank)], p.call));
  return {"cycle", text + "the first", cycle[0].rank, cycle[0].call};
}

void append(std::vector<Finding>& all, std::vector<Finding> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

std::vector<Finding> check(const std::vector<const Program*>& ranks) {
  std::vector<Finding> findings;
  for (size_t r = 0; r < ranks.size(); ++r) check_facts(*ranks[r], static_cast<int>(r), findings);
  if (!findings.empty()) return findings;
  const Names names = names_of(ranks);
  for (const auto& [name, channel] : channels_of(names))
    match_members(ranks, name, channel, findings);
  if (!findings.empty()) return findings;
  Waits waits(ranks, names);
  const std::vector<std::vector<int64_t>> order = waits.order();
  const std::vector<Point> cycle = waits.cycle();
  if (!cycle.empty()) return {cycle_finding(ranks, cycle)};
  for (size_t r = 0; r < ranks.size(); ++r)
    append(findings, check_race(*ranks[r], static_cast<int>(r), order[r]));
  if (!findings.empty()) return findings;
  for (size_t r = 0; r < ranks.size(); ++r) {
    append(findings, check_value(*ranks[r], static_cast<int>(r), order[r]));
    append(findings, check_meaning(*ranks[r], static_cast<int>(r), order[r]));
  }
  return findings;
}

std::vector<std::string> prove(const std::vector<Program>& stages) {
  std::vector<std::string> out;
  std::vector<const Program*> ranks;
  for (const Program& p : stages) {
    for (std::string& fault : verify(p)) out.push_back(std::move(fault));
    ranks.push_back(&p);
  }
  if (!out.empty()) return out;
  for (const Finding& f : check(ranks)) out.push_back(fmt::format("{}: {}", f.kind, f.text));
  return out;
}

}  // namespace tessera

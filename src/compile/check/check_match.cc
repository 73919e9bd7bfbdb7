// Checks that the collectives and messages of all ranks match. Calls are grouped by channel (a
// group of ranks, or a direction between two), which are first in, first out. The n-th calls of all
// members must agree in kind, label and bytes.
#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "compile/check/check_parts.h"
#include "compile/schedule/call_list.h"
#include "ir/names.h"

namespace tessera::compile {
namespace {

using Channel = std::map<int, std::vector<CallId>>;  // rank → its calls, in issue order

// Returns the channel of a call, the same text on all its members; empty for a call that involves
// this rank only. In programs for a mesh of one rank, the name of the group is the channel.
std::string channel_of(const Mesh& mesh, const Program& p, const Call& c, int64_t rank) {
  const CommSpec& w = c.comm;
  const std::string partners = partners_of(w);
  if (partners.empty() || p.mesh.ranks() == 1) return partners;
  const Queue queue = p.segment(c).queue;
  if (w.peer != kNone) {
    Coordinates peer = coordinates_of(mesh, rank);
    peer[AxisKind::kPipeline] = w.peer;
    const int64_t other = rank_of(mesh, peer);
    const bool forward = queue == Queue::kSendForward || queue == Queue::kReceiveForward;
    const bool sends = w.kind == CommKind::kSend;
    return fmt::format("{} from rank {} to {}", forward ? "forward" : "backward",
                       sends ? rank : other, sends ? other : rank);
  }
  if (group_size(mesh, w.over) == 1) return "";
  return fmt::format("{} of ranks {}", partners, fmt::join(group_of(mesh, w.over, rank), ","));
}

// If one rank represents all ranks of its stage, because they run the same program, the list has
// one rank per stage, and the communication within a stage matches trivially.
Mesh mesh_of(const std::vector<const Program*>& ranks) {
  Mesh mesh = ranks[0]->mesh;
  if (std::ssize(ranks) == mesh.ranks()) return mesh;
  Mesh stages;
  stages[AxisKind::kPipeline] = mesh[AxisKind::kPipeline];
  return stages;
}

std::map<std::string, Channel> channels_of(const ChannelNames& names) {
  std::map<std::string, Channel> channels;
  for (int r = 0; r < std::ssize(names); ++r)
    for (const CallId c : names[r].ids())
      if (!names[r][c].empty()) channels[names[r][c]][r].push_back(c);
  return channels;
}

std::string comm_text(const CommSpec& w) {
  return fmt::format("{} of {} ({} bytes)", name_of(w.kind), w.label, w.bytes);
}

bool match(const CommSpec& a, const CommSpec& b) {
  const CommKind wanted = a.kind == CommKind::kSend      ? CommKind::kReceive
                          : a.kind == CommKind::kReceive ? CommKind::kSend
                                                         : a.kind;
  return b.kind == wanted && a.label == b.label && a.bytes == b.bytes;
}

// Returns the stage that a message on this queue comes from or goes to.
int64_t peer_of(const Program& p, Queue queue) {
  const int64_t stages = p.mesh[AxisKind::kPipeline];
  const bool ahead = queue == Queue::kSendForward || queue == Queue::kReceiveBackward;
  return (p.stage + (ahead ? 1 : stages - 1)) % stages;
}

// Reports the first index at which two members of a channel disagree.
void match_members(const std::vector<const Program*>& ranks, const std::string& name,
                   const Channel& channel, std::vector<Finding>& findings) {
  const auto& [first, calls] = *channel.begin();
  if (channel.size() == 1) {
    findings.push_back({"match",
                        fmt::format("{} on channel {} has no partner on any rank",
                                    call_name(*ranks[first], calls[0]), name),
                        first, calls[0]});
    return;
  }
  for (auto other = std::next(channel.begin()); other != channel.end(); ++other) {
    const Program &p = *ranks[first], &q = *ranks[other->first];
    const size_t both = std::min(calls.size(), other->second.size());
    size_t i = 0;
    while (i < both && match(p.call(calls[i]).comm, q.call(other->second[i]).comm)) ++i;
    if (i == calls.size() && i == other->second.size()) continue;
    const auto say = [&](const Program& of, const std::vector<CallId>& list) {
      if (i >= list.size()) return std::string("nothing");
      return fmt::format("{}: {}", call_name(of, list[i]), comm_text(of.call(list[i]).comm));
    };
    findings.push_back({"match",
                        fmt::format("channel {}, number {}: rank {} has {}; rank {} has {}", name,
                                    i, first, say(p, calls), other->first, say(q, other->second)),
                        first, i < calls.size() ? calls[i] : kNone});
  }
}

}  // namespace

std::vector<Finding> check_wires(const Program& p, int rank) {
  std::vector<Finding> findings;
  for (const CallId id : p.schedule.ids()) {
    const Call& c = p.call(id);
    for (const CallId y : c.after)
      if (y >= id)
        findings.push_back({"cycle",
                            fmt::format("call {} waits for {}, which is issued after it",
                                        call_name(p, id), call_name(p, y)),
                            rank, id});
    const Segment& s = p.segment(c);
    if (s.ops.empty()) continue;
    CommSpec wanted = comm_of(p, c);
    if (s.queue >= Queue::kSendForward) wanted.peer = peer_of(p, s.queue);
    if (wanted != c.comm)
      findings.push_back(
          {"match",
           fmt::format("call {} is described as {} over '{}', but its ops do {} over '{}'",
                       call_name(p, id), comm_text(c.comm), partners_of(c.comm), comm_text(wanted),
                       partners_of(wanted)),
           rank, id});
  }
  return findings;
}

ChannelNames channel_names(const std::vector<const Program*>& ranks) {
  ChannelNames names;
  const Mesh mesh = mesh_of(ranks);
  for (size_t r = 0; r < ranks.size(); ++r) {
    names.emplace_back();
    for (const Call& c : ranks[r]->schedule)
      names.back().push_back(channel_of(mesh, *ranks[r], c, r));
  }
  return names;
}

std::vector<Finding> check_match(const std::vector<const Program*>& ranks,
                                 const ChannelNames& names) {
  std::vector<Finding> findings;
  for (const auto& [name, channel] : channels_of(names))
    match_members(ranks, name, channel, findings);
  return findings;
}

}  // namespace tessera::compile

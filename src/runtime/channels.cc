#include "runtime/channels.h"

#include <fmt/format.h>

#include <charconv>
#include <set>

#include "base/error.h"

namespace tessera {
namespace {

constexpr std::string_view kStage = "stage:";

bool is_message(const Op& op) { return op.kind == OpKind::kSend || op.kind == OpKind::kReceive; }

// Group, then what sets it apart from others of the same ranks. A sender's queue and the receiver's
// share a channel.
std::pair<std::string, std::string> name_of(const Op& op, Queue queue) {
  if (!is_message(op)) return {op.attributes.text("over"), std::to_string(static_cast<int>(queue))};
  const bool forward = queue == Queue::kSendForward || queue == Queue::kReceiveForward;
  CHECK(forward || queue == Queue::kSendBackward || queue == Queue::kReceiveBackward,
        "{} stands in queue {}", op.origin, static_cast<int>(queue));
  return {"pipeline", forward ? "forward" : "backward"};
}

}  // namespace

bool communicates(const Op& op) {
  return is_message(op) || op.kind == OpKind::kAllReduce || op.kind == OpKind::kReduceScatter ||
         op.kind == OpKind::kAllGather;
}

std::string group_named(const Op& op) {
  return is_message(op) ? "pipeline" : op.attributes.text("over");
}

int64_t peer_stage(const Wire& wire) {
  CHECK(wire.over.starts_with(kStage), "a message over '{}'", wire.over);
  int64_t stage = kNone;
  std::from_chars(wire.over.data() + kStage.size(), wire.over.data() + wire.over.size(), stage);
  return stage;
}

Channels::Channels(World& world, const std::vector<Program>& programs) {
  if (!programs.empty()) position_.mesh = programs[0].mesh;
  const Mesh& mesh = position_.mesh;
  CHECK(mesh.ranks() == world.size(), "a program for {} ranks in a world of {}", mesh.ranks(),
        world.size());
  position_.at = coordinates_of(mesh, world.rank());
  // Sorted: groups that share ranks are then made in one order everywhere, and no wait can cycle.
  std::set<std::pair<std::string, std::string>> names;
  for (const Program& p : programs) {
    CHECK(p.mesh == mesh, "programs {} and {} have different meshes", programs[0].name, p.name);
    for (const Segment& s : p.segments)
      for (const Op& op : s.ops)
        if (communicates(op)) names.insert(name_of(op, s.queue));
  }
  // The last stage may send nothing forward while others do.
  if (names.contains({"pipeline", "forward"}) || names.contains({"pipeline", "backward"}))
    names.insert({{"pipeline", "forward"}, {"pipeline", "backward"}});
  for (const auto& [over, line] : names)
    channels_[over + ' ' + line] = world.group(group_of(mesh, over, world.rank()));
}

Communicator& Channels::of(const Op& op, Queue queue) const {
  const auto [over, line] = name_of(op, queue);
  return *channels_.at(over + ' ' + line);
}

}  // namespace tessera

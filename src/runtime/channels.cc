// Creates the communicators of all programs of a run. All ranks create them in the order of their
// names, because the creation of a communicator is collective.
#include "runtime/channels.h"

#include "base/error.h"
#include "ir/rule.h"

namespace tessera::runtime {
GroupRef group_of(const Op& op) {
  return is_message(op) ? GroupRef::along({AxisKind::kPipeline}) : *over_of(op.attributes);
}

Channels::Channels(comm::World& world, const std::vector<Program>& programs)
    : messages_(world.takes_turns() ? Messages::kPairs : Messages::kShared) {
  if (!programs.empty()) position_.mesh = programs[0].mesh;
  const Mesh& mesh = position_.mesh;
  CHECK(mesh.ranks() == world.size(), "a program for {} ranks, in a world of {}", mesh.ranks(),
        world.size());
  position_.at = coordinates_of(mesh, world.rank());
  std::vector<const Program*> all;
  for (const Program& p : programs) {
    CHECK(p.mesh == mesh, "programs {} and {} have different meshes", programs[0].name, p.name);
    all.push_back(&p);
  }
  for (const CommunicatorUse& use : communicators_of(all, messages_)) {
    auto& channel = channels_[use.name];
    channel = world.group(tessera::group_of(mesh, use.name.over, world.rank()));
    if (use.reduces) channel->prepare_sums();
  }
}

// Destroying a communicator may wait for its other ranks, so all ranks destroy theirs in the same
// order.
Channels::~Channels() {
  while (!channels_.empty()) channels_.erase(channels_.begin());
}

comm::Communicator& Channels::of(const Op& op, Queue queue, const Program& program) const {
  return *channels_.at(communicator_of(op, queue, program, messages_));
}

int64_t Channels::peer(const comm::Communicator& channel, int64_t stage) const {
  if (messages_ == Messages::kShared) return stage;
  CHECK(channel.size() == 2 && stage != position_.at[AxisKind::kPipeline],
        "a message to stage {} through a communicator of {} ranks", stage, channel.size());
  return 1 - channel.rank();
}

}  // namespace tessera::runtime

// Creates the communicators of all programs of a run. All ranks create them in the order of their
// names, because the creation of a communicator is collective.
#include "runtime/communicator_map.h"

#include "base/error.h"
#include "ir/rule.h"

namespace tessera::runtime {
GroupRef group_of(const Op& op) {
  return is_message(op) ? GroupRef::along({AxisKind::kPipeline}) : *over_of(op.attributes);
}

CommunicatorMap::CommunicatorMap(comm::World& world, const std::vector<Program>& programs)
    : messages_(world.takes_turns() ? MessageCommunicators::kPairs
                                    : MessageCommunicators::kShared) {
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
    auto& channel = communicators_[use.name];
    channel = world.group(tessera::group_of(mesh, use.name.over, world.rank()));
    if (use.reduces) channel->prepare_sums();
  }
}

// Destroying a communicator may wait for its other ranks, so all ranks destroy theirs in the same
// order.
CommunicatorMap::~CommunicatorMap() {
  while (!communicators_.empty()) communicators_.erase(communicators_.begin());
}

comm::Communicator& CommunicatorMap::of(const Op& op, Queue queue, const Program& program) const {
  return *communicators_.at(communicator_of(op, queue, program, messages_));
}

int64_t CommunicatorMap::peer(const comm::Communicator& channel, int64_t stage) const {
  if (messages_ == MessageCommunicators::kShared) return stage;
  CHECK(channel.size() == 2 && stage != position_.at[AxisKind::kPipeline],
        "a message to stage {} through a communicator of {} ranks", stage, channel.size());
  return 1 - channel.rank();
}

}  // namespace tessera::runtime

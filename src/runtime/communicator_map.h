// The communicators of a rank's programs (ir/communicators.h).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/world.h"
#include "ir/communicators.h"
#include "ir/program.h"

namespace tessera::runtime {

// The mesh of the run and the coordinates of this rank in it.
struct RankPosition {
  Mesh mesh;
  Coordinates at;
};

class CommunicatorMap {
 public:
  // Creates the communicators of this rank's programs. Collective: every rank passes its own
  // programs of the same run, and the constructor waits for the other members of its groups.
  CommunicatorMap(comm::World& world, const std::vector<Program>& programs);

  ~CommunicatorMap();
  CommunicatorMap(const CommunicatorMap&) = delete;
  CommunicatorMap& operator=(const CommunicatorMap&) = delete;

  const RankPosition& position() const { return position_; }
  // Returns the communicator of an op that communicates, in a segment of `queue` in `program`.
  comm::Communicator& of(const Op& op, Queue queue, const Program& program) const;
  // Returns the rank of a pipeline stage within a communicator of messages.
  int64_t peer(const comm::Communicator& channel, int64_t stage) const;

 private:
  RankPosition position_;
  MessageCommunicators messages_;
  std::map<CommunicatorName, std::unique_ptr<comm::Communicator>> communicators_;
};

// Returns the group of an op that communicates; for a message, all ranks along the pipeline.
GroupRef group_of(const Op& op);

}  // namespace tessera::runtime

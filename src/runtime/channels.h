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

// The ranks of the run, and which of them this is.
struct Position {
  Mesh mesh;
  Coordinates at;
};

class Channels {
 public:
  // Every rank hands in its own programs of the same run; waits for the members of its groups.
  Channels(comm::World& world, const std::vector<Program>& programs);

  ~Channels();
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  const Position& position() const { return position_; }
  // Returns the communicator of an op that communicates, in a segment of that queue of `program`.
  comm::Communicator& of(const Op& op, Queue queue, const Program& program) const;
  // Returns the index of a stage in a communicator of messages.
  int64_t peer(const comm::Communicator& channel, int64_t stage) const;

 private:
  Position position_;
  Messages messages_;
  std::map<CommunicatorName, std::unique_ptr<comm::Communicator>> channels_;
};

// The group of an op that communicates; of a message all ranks along the pipeline.
GroupRef group_of(const Op& op);

}  // namespace tessera::runtime

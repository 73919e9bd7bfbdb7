// Where a rank's programs exchange: a communicator for each group and queue, so that transfers of
// different queues never meet, and one for each direction of the pipeline.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/world.h"
#include "ir/program.h"

namespace tessera {

// The ranks of the run, and which of them this is.
struct Position {
  Mesh mesh;
  Coordinates at;
};

class Channels {
 public:
  // Every rank hands in its own programs of the same run; waits for the members of its groups.
  Channels(World& world, const std::vector<Program>& programs);

  const Position& position() const { return position_; }
  // Of an op that communicates, in a segment of that queue. A message's peer there is its stage.
  Communicator& of(const Op& op, Queue queue) const;

 private:
  Position position_;
  std::map<std::string, std::unique_ptr<Communicator>> channels_;
};

bool communicates(const Op& op);
// The group of an op that communicates, for people: "shard", "tensor", "pipeline".
std::string group_named(const Op& op);
// The stage that a message goes to or comes from.
int64_t peer_stage(const Wire& wire);

}  // namespace tessera

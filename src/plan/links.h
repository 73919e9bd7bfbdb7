// Predicts the time of collectives and messages on the links of a machine. All groups of a stage
// run the same collective at the same time, and no other traffic is assumed: if k groups have
// members on a node, each gets 1/k of the node's injection rate.
//
//   ring          (n-1) hops; every member sends (n-1)/n of the bytes (twice for an all_reduce)
//                 over the slowest link of the ring
//   tree          all_reduce only: twice the bytes, 2 log2(n) hops
//   hierarchical  a ring within the node, then one ring between nodes per member, each with its
//                 shard: for groups of whole nodes, and for others if Software::hierarchical
//
// The fastest of them is used. Ranks are assigned to nodes in order: node = rank / node.devices.
#pragma once

#include <string_view>
#include <vector>

#include "ir/mesh.h"
#include "ir/program.h"
#include "plan/hardware.h"

namespace tessera::plan {

// How the members of a group are distributed over nodes.
struct GroupShape {
  int64_t members = 1;
  int64_t nodes = 1;         // nodes with at least one member
  int64_t per_node = 1;      // members on the node that has most
  bool package = false;      // all members are in one package
  int64_t at_once = 1;       // groups with members on the node, including this one
  bool hierarchical = true;  // Software::hierarchical
};

// Returns the shape of the group `over` that contains the first rank of `stage`.
GroupShape group_shape(const Mesh& mesh, const GroupRef& over, int64_t stage,
                       const Hardware& hardware, bool hierarchical = true);
// Returns the shape of the messages between the ranks of two stages; it has 2 members.
GroupShape message_shape(const Mesh& mesh, int64_t from, int64_t to, const Hardware& hardware);

// Return seconds. `bytes` is the size of the full tensor: the operand of an all-reduce or a
// reduce-scatter, the result of an all-gather. A collective in a group of one takes no time.
double collective_s(CommKind kind, double bytes, const GroupShape& group, const Hardware& hardware);
double message_s(double bytes, const GroupShape& pair, const Hardware& hardware);

}  // namespace tessera::plan

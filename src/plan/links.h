// How long collectives and messages take on the links of a machine, alone on them but for the like
// groups that run the same at the same time: the ranks of a stage do alike, so where k groups have
// members on a node, each gets a k-th of what the node injects.
//
//   ring          (n-1) hops; every member sends (n-1)/n of the bytes (twice for an all_reduce)
//                 over the slowest link of the ring
//   tree          all_reduce only: twice the bytes, 2 log2(n) hops
//   hierarchical  reduce within the node, then between nodes each member its part, then back: for
//                 groups of whole nodes, and for others where the software is so
//
// and the best of them is taken. Ranks stand on nodes in their order: node = rank / node.devices.
#pragma once

#include <string_view>
#include <vector>

#include "ir/mesh.h"
#include "ir/program.h"
#include "plan/hardware.h"

namespace tessera::plan {

// Where the members of a group stand.
struct GroupShape {
  int64_t members = 1;
  int64_t nodes = 1;         // that it stands on
  int64_t per_node = 1;      // members on the node that has most
  bool package = false;      // all in one package
  int64_t at_once = 1;       // like groups on a node, this one counted
  bool hierarchical = true;  // Software's
};

// Of the group `over` that a rank of `stage` belongs to.
GroupShape group_shape(const Mesh& mesh, const GroupRef& over, int64_t stage,
                       const Hardware& hardware, bool hierarchical = true);
// Of the messages between the ranks of two stages: members are 2.
GroupShape message_shape(const Mesh& mesh, int64_t from, int64_t to, const Hardware& hardware);

// Seconds. `bytes` are those of the whole: what an all_reduce sums, what reduce_scatter reads, what
// all_gather gives. A group of one takes no time.
double collective_s(WireKind kind, double bytes, const GroupShape& group, const Hardware& hardware);
double message_s(double bytes, const GroupShape& pair, const Hardware& hardware);

}  // namespace tessera::plan

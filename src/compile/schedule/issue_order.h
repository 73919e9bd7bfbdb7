// The one order of all stages in which a stage's actions and messages are issued: an action stands
// at the time it starts where messages are free, a message at the time its producer finishes, on
// both ends, before the actions of that time. So every wait points backward in one order and none
// can form a cycle.
#pragma once

#include <vector>

#include "compile/schedule/call_list.h"
#include "compile/schedule/stage_blocks.h"
#include "compile/schedule/stage_share.h"

namespace tessera::compile {

struct Issue {
  bool is_message = false;
  Action action;          // of a message: its producer's
  bool backward = false;  // of a message: its direction
  bool receives = false;  // of a message: this end of it
};

// What the stage of `share` does. No message goes before the chunk `first_backward` in the
// backward.
std::vector<Issue> issue_order(const StageShare& share, int64_t first_backward);

// The calls that carry activations and gradients between the chunks of a pipeline, in that order.
class StageMessages {
 public:
  StageMessages(const Expanded& expanded, const StageShare& share, const StageBlocks& own,
                CallList& calls)
      : e_(expanded), share_(share), own_(own), calls_(calls) {}

  // The first chunk that computes in the backward: frozen embeddings do not, and no message goes
  // there.
  int64_t first_backward() const;
  void issue(const Issue& message);
  // Keeps or releases the share of what a chunk sent on.
  void sent(const Action& action, SegmentId CrossingMessages::*what);

 private:
  const Expanded& e_;
  const StageShare& share_;
  const StageBlocks& own_;
  CallList& calls_;
};

}  // namespace tessera::compile

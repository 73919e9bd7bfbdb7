// The order in which a stage issues its actions and messages, consistent over all stages. An action
// is ordered by its start time if messages take no time; a message, on both ends, by the time at
// which its producer finishes, before the actions with that time. So every wait is for something
// earlier in one global order, and no waits can form a cycle.
#pragma once

#include <vector>

#include "compile/schedule/call_list.h"
#include "compile/schedule/stage_blocks.h"
#include "compile/schedule/stage_layers.h"

namespace tessera::compile {

struct Issue {
  bool is_message = false;
  Action action;          // for a message: its producer
  bool backward = false;  // for a message: its direction
  bool receives = false;  // for a message: true on the receiving end
};

// Returns the issue order of the stage of `share`. No backward message goes to a chunk before
// `first_backward`.
std::vector<Issue> issue_order(const StageLayers& share, int64_t first_backward);

// Emits the calls that carry activations and gradients between the chunks of a pipeline, in that
// order.
class StageMessages {
 public:
  StageMessages(const LoweredGraph& lowered, const StageLayers& share, const StageBlocks& own,
                CallList& calls)
      : e_(lowered), share_(share), own_(own), calls_(calls) {}

  // Returns the first chunk that computes in the backward. Frozen embeddings do not, so no message
  // goes there.
  int64_t first_backward() const;
  void issue(const Issue& message);
  // Adds the call that keeps, or the one that releases, this rank's shard of what a chunk sent.
  void sent(const Action& action, SegmentId BoundarySegments::*what);

 private:
  const LoweredGraph& e_;
  const StageLayers& share_;
  const StageBlocks& own_;
  CallList& calls_;
};

}  // namespace tessera::compile

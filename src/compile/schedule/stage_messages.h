// The calls that carry activations and gradients between the chunks of a pipeline.
#pragma once

#include "compile/schedule/call_list.h"
#include "compile/schedule/issue_order.h"
#include "compile/schedule/stage_blocks.h"

namespace tessera {

class StageMessages {
 public:
  StageMessages(const Expanded& expanded, const StageShare& share, const StageBlocks& own,
                CallList& calls)
      : e_(expanded), share_(share), own_(own), calls_(calls) {}

  // The first chunk that computes in the backward: frozen embeddings do not, and no message goes
  // there.
  int64_t first_backward() const;
  void issue(const Issue& message);
  // Of what a chunk sent on: its share is kept, or let go.
  void sent(const Action& action, SegmentId CrossingMessages::*what);

 private:
  const Expanded& e_;
  const StageShare& share_;
  const StageBlocks& own_;
  CallList& calls_;
};

}  // namespace tessera

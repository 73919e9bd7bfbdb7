// The calls that carry activations and gradients between the chunks of a pipeline.
#pragma once

#include "compile/schedule/issue_order.h"
#include "compile/schedule/stage_blocks.h"

namespace tessera {

class StageMessages {
 public:
  StageMessages(const Expanded& expanded, const ModelConfig& model, const StageShare& share,
                const StageBlocks& own, CallList& calls)
      : e_(expanded), model_(model), share_(share), own_(own), calls_(calls) {}

  // The first chunk that computes in the backward: frozen embeddings do not, and no message goes
  // there.
  int64_t first_backward() const;
  void issue(const Issue& message);
  // Of what a chunk sent on: its share is kept, or let go.
  void sent(const Action& action, SegmentId CrossingMessages::*what);

 private:
  struct Cut {  // between two chunks: what crosses, and its position in its stack
    const CrossingMessages& messages;
    int64_t position = 0;
  };
  Cut cut_at(int64_t layer) const;

  const Expanded& e_;
  const ModelConfig& model_;
  const StageShare& share_;
  const StageBlocks& own_;
  CallList& calls_;
};

}  // namespace tessera

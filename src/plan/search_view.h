// One candidate as the bounds need it: the times of its chunks, and the contents of its stages.
#pragma once

#include "compile/schedule/pipeline.h"
#include "compile/schedule/schedule_passes.h"
#include "plan/search_bound.h"

namespace tessera::plan {

struct CandidateView {
  const Candidate* candidate = nullptr;
  const BlockCosts* blocks = nullptr;
  const MeshPlaces* places = nullptr;
  const ChunkLayers* layers = nullptr;
  compile::Offload offload;  // layout.offload, parsed
  int64_t shards = 1, microbatches = 1;
  int64_t begin = 0;                // ns, before the first call of the step
  bool sender_waits = false;        // a sender waits until its transfer completes
  std::vector<CallNs> calls;        // by group of stages
  std::vector<int64_t> next, back;  // ns, by stage: a message to the next, to the previous stage

  int64_t step_by_formula() const;
  int64_t bytes_by_formula() const;
  int64_t step_of(const std::vector<std::vector<compile::Action>>& actions) const;
  int64_t bytes_of(const std::vector<std::vector<compile::Action>>& actions) const;

  int64_t stages() const { return candidate->layout.pipeline; }
  int64_t chunks() const { return std::ssize(layers->chunks); }
  int64_t zero() const { return candidate->layout.zero; }
  bool divides(int64_t stage) const { return zero() >= stage && shards > 1; }
  bool reduces_each() const;
  const ChunkLayers::Chunk& of(int64_t chunk) const { return layers->chunks[chunk]; }
  int64_t layers_of(int64_t chunk, size_t stack) const { return of(chunk).of[stack]; }
  int64_t layers_of(int64_t chunk) const { return of(chunk).layers; }
  int64_t layers_on(int64_t stage, size_t stack) const;
  bool has_bridge(int64_t chunk) const { return of(chunk).bridge; }
  // Return the stack of a chunk's first and last layer.
  size_t first_stack(int64_t chunk) const { return of(chunk).first; }
  size_t last_stack(int64_t chunk) const { return of(chunk).last; }
  // Returns the sum of each(stack) over all layers of a chunk.
  template <class Each>
  int64_t over_layers(int64_t chunk, const Each& each) const {
    int64_t sum = 0;
    for (size_t k = 0; k < blocks->stacks.size(); ++k)
      if (layers_of(chunk, k) > 0) sum += layers_of(chunk, k) * each(k);
    return sum;
  }
  const CallNs& calls_on(int64_t stage) const { return calls[places->group[stage]]; }

  // Return ns of one micro-batch; `first`: gradient sums are written, not added to.
  int64_t forward(int64_t chunk) const;
  int64_t backward(int64_t chunk, bool first) const;
  int64_t weights(int64_t chunk, bool first) const;
  // Returns the ns of a backward that need no gradient yet: the recomputation of the last layer.
  int64_t ahead(int64_t chunk) const;
  // Returns true if the chunk or one before it has a backward, so gradients are sent to it.
  bool goes_back(int64_t chunk) const;
  // Returns the earliest start of a stage's first forward, in view of the weights it gathers.
  int64_t gathered(int64_t chunk) const;
  // Returns the ns after the last backward (or its weight-gradient part) of a stage's first chunk.
  int64_t tail(int64_t stage, bool after_weights) const;
  int64_t update(int64_t stage) const;
  int64_t squares(int64_t stage) const;
  // Returns the ns of all gathers and reductions of single micro-batches.
  int64_t moving(int64_t stage) const;

  bool uses(const GroupCost& g, int64_t stage) const;
  int64_t copies(const GroupCost& g, int64_t stage) const;
  int64_t state_bytes(int64_t stage) const;
  bool offloads() const;
  int64_t gradient_bytes(const GroupCost& g) const;
  int64_t saved_by_layer(size_t stack) const;
  int64_t layer_gradients(size_t stack, bool divided) const;
  int64_t saved_bytes(int64_t chunk) const;
  int64_t kept_bytes(int64_t chunk) const;  // those kept until the weight-gradient part
  // Returns the bytes of a running backward in addition to the saved ones; `begun`: its gradient
  // sums exist already.
  int64_t backward_bytes(int64_t chunk, bool begun) const;
};

}  // namespace tessera::plan

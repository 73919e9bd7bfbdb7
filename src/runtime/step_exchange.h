// What the host and the device exchange around each run on a GPU: `batch` and `step` go there,
// `report`, logits and activations come from there.
#pragma once

#include <vector>

#include "runtime/bound_program.h"
#include "tensor/gpu.h"

namespace tessera::runtime {

class StepExchange {
 public:
  explicit StepExchange(const BoundProgram& bound);  // which outlives it

  // The host's memory of all that is exchanged, to be pinned.
  std::vector<MemoryRange> host_memory() const;
  // The host's value `step`; nullptr if the program has none.
  const double* host_step() const { return host_step_; }

  // Enqueues the copies to the device.
  void send(Stream main);
  // Returns when what the last send() copies has been read.
  void wait_until_read() const { read_.synchronise(); }
  // Enqueues, after a run whose report the host has not read, the copy of its skip to the next one:
  // nothing may be updated after a step that was skipped.
  void carry_skip(Stream main) const;
  // Enqueues the copies from the device, unless they are under way.
  void fetch(Stream main);
  // The end of the copies of the last fetch().
  const GpuEvent& fetched() const { return fetched_; }
  // To be called when fetched() is over and before another fetch().
  void finish_fetch() { fetching_ = false; }

 private:
  const BoundProgram& bound_;
  std::vector<TensorView> sent_, results_;  // the host's views, and the device's
  const double* host_step_ = nullptr;
  GpuEvent read_, fetched_;
  bool fetching_ = false;
};

}  // namespace tessera::runtime

// The copies between host and device around each run on a GPU: `batch` and `step` to the device;
// `report`, logits and activations from it.
#pragma once

#include <vector>

#include "runtime/bound_program.h"
#include "tensor/gpu.h"

namespace tessera::runtime {

class StepExchange {
 public:
  explicit StepExchange(const BoundProgram& bound);  // must outlive this object

  // Returns the host memory of all exchanged values, which the caller pins.
  std::vector<MemoryRange> host_memory() const;
  // Returns the host's copy of the value `step`, or nullptr if the program has none.
  const double* host_step() const { return host_step_; }

  // Enqueues the copies to the device.
  void send(Stream main);
  // Waits until the copies of the last send() have been read from host memory.
  void wait_until_read() const { read_.synchronise(); }
  // Enqueues a copy of the skip flag of the previous run, whose report the host has not read, to
  // the next run: a step after a skipped step must not update anything.
  void carry_skip(Stream main) const;
  // Enqueues the copies from the device, unless they are in progress.
  void fetch(Stream main);
  // Returns the event at the end of the copies of the last fetch().
  const GpuEvent& fetched() const { return fetched_; }
  // Must be called after fetched() has occurred and before the next fetch().
  void finish_fetch() { fetching_ = false; }

 private:
  const BoundProgram& bound_;
  std::vector<TensorView> sent_, results_;  // sent_: host views; results_: device views
  const double* host_step_ = nullptr;
  GpuEvent read_, fetched_;
  bool fetching_ = false;
};

}  // namespace tessera::runtime

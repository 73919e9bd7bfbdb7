// The batches of a run's programs in the arena, with a copy of the first micro-batch.
#pragma once

#include <cstdint>
#include <vector>

#include "data/batches.h"
#include "runtime/executor.h"

namespace tessera::train {

// The programs of a run share the memory of their batches with activations and with each other, so
// running one of them, or writing the batch of another, destroys a batch.
class BatchMemory {
 public:
  // Returns a view for writing a micro-batch of a program. After it, no step's batch is in the
  // arena.
  data::BatchView view(runtime::Executor& executor, int64_t microbatch);
  // Writes the batch of step `step` (from 1), and keeps a copy of its first micro-batch.
  void write(runtime::Executor& executor, data::BatchSource& batches, int64_t step);
  // Writes the copy into the first micro-batch of a program, which must be of the same size.
  void restore(runtime::Executor& executor);
  // Returns the step whose batch is in the arena, or 0 if there is none.
  int64_t step() const { return step_; }

 private:
  int64_t step_ = 0;
  std::vector<int32_t> tokens_, labels_, positions_, documents_, source_;
  std::vector<int64_t> samples_;
};

}  // namespace tessera::train

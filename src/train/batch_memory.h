// The batches of a run's programs in the arena, with a copy of the first micro-batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/batches.h"
#include "runtime/executor.h"

namespace tessera::train {

// A micro-batch outside the arena, in the layout of data::BatchView.
struct StoredBatch {
  std::vector<int32_t> tokens, labels, positions, documents, source, answers;
  std::vector<int64_t> samples;
  std::vector<std::vector<int32_t>> mtp_tokens = {}, mtp_labels = {};  // by depth (MtpView)
  std::vector<double> references = {};
};

// Copies row `row` of `from` to row `to_row` of `to`, which has rows of the same length.
void copy_row(const StoredBatch& from, size_t row, const data::BatchView& to, size_t to_row);

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
  // Returns copies of all micro-batches of the batch in the arena.
  std::vector<StoredBatch> stored(runtime::Executor& executor, int64_t microbatches);
  // Writes the batch of step `step` again, from such copies.
  void rewrite(runtime::Executor& executor, std::span<const StoredBatch> batches, int64_t step);
  // Returns the step whose batch is in the arena, or 0 if there is none.
  int64_t step() const { return step_; }

 private:
  int64_t step_ = 0;
  StoredBatch first_;
};

}  // namespace tessera::train

// What a step reads: global batches in micro-batches, read ahead on a thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "data/sample_row.h"

namespace tessera {

// Step s (from 0) takes the samples behind those of the steps before it: [s·global, (s + 1)·global)
// without a ramp. With R data ranks and b = micro, its micro-batch m of rank r holds the samples
// (m·R + r)·b + [0, b) of these: the position in the data is a pure function of the step, and the
// ranks' micro-batches m together are R·b neighbours.
struct BatchShape {
  int64_t global = 1;           // sequences a step, after the ramp
  int64_t micro = 1;            // sequences a micro-batch of one rank; global = micro × ranks × m
  int64_t sequence_length = 0;  // T
  int64_t rank = 0, ranks = 1;  // over data
  int64_t source_length = 0;    // S, of an encoder; 0: there is none

  // Sequences of the first steps: ramp[0] for ramp_steps steps, then ramp[1] for as many, …
  std::vector<int64_t> ramp = {};
  int64_t ramp_steps = 0;

  int64_t global_at(int64_t step) const;
  int64_t samples_before(int64_t step) const;
  int64_t step_of(int64_t sample) const;
  int64_t microbatches(int64_t step) const { return global_at(step) / (micro * ranks); }
  int64_t first_sample(int64_t step, int64_t microbatch) const {
    return samples_before(step) + (microbatch * ranks + rank) * micro;
  }
};

// What a micro-batch is written into: rows as sample_row.h describes them.
struct BatchView {
  std::span<int32_t> tokens;          // [b, T]
  std::span<int32_t> labels;          // [b, T]
  std::span<int32_t> positions;       // [b, T]
  std::span<int64_t> samples;         // [b]     global sample numbers
  std::span<int32_t> documents = {};  // [b, T]  or empty: whoever does not ask does not get them
  std::span<int32_t> source = {};     // [b, S]
};

// Fills the front of T + 1 tokens with a sample and returns how many there are: fewer than T + 1
// only at the end of a validation set, 0 beyond it.
using SampleReader = std::function<int64_t(int64_t sample, std::span<int32_t> out)>;

// A thread of its own calls the reader, up to `ahead` micro-batches before they are asked for; it
// is the only one to call it. All memory is taken at the start.
class BatchSource {
 public:
  BatchSource(BatchShape shape, RowReader reader, int ahead = 4);
  // Rows of tokens that follow each other. Where one is short, the rest is token 0 and
  // kIgnoredLabel.
  BatchSource(BatchShape shape, SampleReader reader, int ahead = 4);
  ~BatchSource();  // stops the thread, also in the middle of its reading ahead
  BatchSource(BatchSource&&) noexcept;

  const BatchShape& shape() const;

  // Micro-batch `microbatch` of step `step`. Fast if asked for in order; after a jump (a resume, or
  // validation from its start) reading ahead begins anew there. Throws what the reader threw.
  void fill(int64_t step, int64_t microbatch, const BatchView& out);

 private:
  class Prefetch;
  std::unique_ptr<Prefetch> prefetch_;
};

}  // namespace tessera

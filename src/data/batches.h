// What a step reads: global batches in micro-batches, read ahead on a thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace tessera::data {

// ---- The rows of a micro-batch.

// A label that no loss counts.
constexpr int32_t kIgnoredLabel = -100;
// The document of places that hold no token.
constexpr int32_t kNoDocument = -1;

struct SampleRow {
  std::span<int32_t> tokens;     // [T]  what the (decoder of the) model reads
  std::span<int32_t> labels;     // [T]  the next token at each position, or kIgnoredLabel
  std::span<int32_t> positions;  // [T]  0 … T − 1, or from 0 in each document
  std::span<int32_t>
      documents;  // [T]  number of the document in the row, from 0; kNoDocument after the last
  std::span<int32_t> source;  // [S]  what an encoder reads; S = 0: there is none
};

// Writes every element of the row. A pure function of the sample's number.
using RowReader = std::function<void(int64_t sample, const SampleRow& row)>;

// The row of at most T + 1 tokens that follow each other, one document: labels are the next tokens.
// Where they are fewer, the rest is token 0 and kIgnoredLabel.
void fill_row(std::span<const int32_t> ids, const SampleRow& row);

// Token 0, kIgnoredLabel and kNoDocument from place `from` on.
void clear_row(size_t from, const SampleRow& row);

// The number of sequences per step: ramp[0] for the first ramp_steps steps of the run, then ramp[1]
// for the next ramp_steps, …, then `global`. The ramp follows the step of the run, whichever steps
// this process computes.
struct BatchRule {
  int64_t global = 1;
  std::span<const int64_t> ramp = {};
  int64_t ramp_steps = 0;

  int64_t at(int64_t step) const;        // of step `step`, from 0
  int64_t before(int64_t step) const;    // sum over steps 0 … step − 1
  int64_t step_of(int64_t place) const;  // the step with before(step) <= place < before(step + 1)
};

// Steps with one rule of batch sizes. The first step takes the samples from `sample` on.
struct BatchPeriod {
  int64_t step = 0, sample = 0;  // steps done and samples consumed before it
  int64_t tokens = 0;            // of the rows consumed before it, padding included
  int64_t row_tokens = 0;        // per row: T + S
  int64_t global = 1;            // the rule, as in BatchRule
  std::vector<int64_t> ramp = {};
  int64_t ramp_steps = 0;
  bool operator==(const BatchPeriod&) const = default;

  BatchRule sizes() const { return {global, ramp, ramp_steps}; }
  // For steps and samples that do not come before the period.
  int64_t samples_before(int64_t step) const;
  int64_t tokens_before(int64_t step) const;
  int64_t step_of(int64_t sample) const;
};

// Which samples each step and rank takes. Each step takes the samples that follow those of the step
// before; the first step after a resume takes those that follow the consumed ones. With R data
// ranks and b = micro, micro-batch m of rank r has the samples (m·R + r)·b + [0, b) of its step:
// the ranks' micro-batches m together are R·b neighbours.
struct BatchShape {
  int64_t global = 1;           // sequences per step, after the ramp
  int64_t micro = 1;            // sequences per micro-batch and rank; global = micro × ranks × m
  int64_t sequence_length = 0;  // T
  int64_t rank = 0, ranks = 1;  // over data
  int64_t source_length = 0;    // S, of an encoder; 0: there is none
  std::vector<int64_t> ramp = {};
  int64_t ramp_steps = 0;

  // The point at which the run resumes: steps done, and what they have consumed.
  int64_t first_step = 0, first_sample = 0, first_tokens = 0;
  std::vector<BatchPeriod> past = {};  // of the steps before first_step, oldest first

  // `step` counts from 0. Steps before first_step are those of `past`.
  int64_t global_at(int64_t step) const;
  int64_t samples_before(int64_t step) const;
  int64_t tokens_before(int64_t step) const;
  int64_t step_of(int64_t sample) const;
  int64_t microbatches(int64_t step) const { return global_at(step) / (micro * ranks); }
  int64_t sample_of(int64_t step, int64_t microbatch) const {
    return samples_before(step) + (microbatch * ranks + rank) * micro;
  }

  // The steps from first_step on, as `past` keeps them after the next resume.
  BatchPeriod period() const;
};

// The memory that a micro-batch is written into, in rows (SampleRow).
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

  // Micro-batch `microbatch` of step `step`, which is first_step or a later one. Fast if asked for
  // in order; after a jump (validation from its start) reading ahead restarts there. Throws what
  // the reader threw.
  void fill(int64_t step, int64_t microbatch, const BatchView& out);

 private:
  class Prefetch;
  std::unique_ptr<Prefetch> prefetch_;
};

}  // namespace tessera::data

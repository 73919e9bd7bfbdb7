// The input of training steps: maps steps to samples, and reads micro-batches ahead on a thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace tessera::data {

// ---- The rows of a micro-batch.

// A label that is not part of the loss.
constexpr int32_t kIgnoredLabel = -100;
// The document number of positions without a token.
constexpr int32_t kNoDocument = -1;

// The answer number of positions whose label belongs to no answer.
constexpr int32_t kNoAnswer = -1;

struct SampleRow {
  std::span<int32_t> tokens;     // [T]  input of the model, or of its decoder
  std::span<int32_t> labels;     // [T]  the next token at each position, or kIgnoredLabel
  std::span<int32_t> positions;  // [T]  0 … T − 1, or from 0 in each document
  std::span<int32_t>
      documents;  // [T]  number of the document in the row, from 0; kNoDocument after the last
  std::span<int32_t> source;  // [S]  encoder input; S = 0: there is no encoder
  // Of preference data (preferences.h); otherwise empty.
  std::span<int32_t> answers = {};    // [T]  number of the answer of each label, or kNoAnswer
  std::span<double> references = {};  // [R]  figures of the pair
};

// Writes every element of the row. Must be a pure function of the sample's number.
using RowReader = std::function<void(int64_t sample, const SampleRow& row)>;

// Fills a row with at most T + 1 consecutive tokens of one document; labels are the next tokens. If
// there are fewer, the rest of the row is token 0 and kIgnoredLabel.
void fill_row(std::span<const int32_t> ids, const SampleRow& row);

// Fills a row with token 0, kIgnoredLabel, kNoDocument and kNoAnswer from position `from` on.
void clear_row(size_t from, const SampleRow& row);

// The number of sequences per step, with batch-size warm-up: ramp[0] in the first ramp_steps steps
// of the run, ramp[1] in the next ramp_steps, …, then `global`. Steps are those of the run, whether
// or not this process computes them.
struct BatchRule {
  int64_t global = 1;
  std::span<const int64_t> ramp = {};
  int64_t ramp_steps = 0;

  int64_t at(int64_t step) const;        // sequences in step `step`, from 0
  int64_t before(int64_t step) const;    // sum over steps 0 … step − 1
  int64_t step_of(int64_t place) const;  // the step with before(step) <= place < before(step + 1)
};

// Consecutive steps with one rule of batch sizes.
struct BatchPeriod {
  int64_t step = 0, sample = 0;  // the first step, and the first sample that it reads
  int64_t tokens = 0;            // tokens consumed before the first step, padding included
  int64_t row_tokens = 0;        // tokens per row: T + S
  int64_t global = 1;            // the rule, as in BatchRule
  std::vector<int64_t> ramp = {};
  int64_t ramp_steps = 0;
  bool operator==(const BatchPeriod&) const = default;

  BatchRule sizes() const { return {global, ramp, ramp_steps}; }
  // Valid only for steps and samples from the first of the period on.
  int64_t samples_before(int64_t step) const;
  int64_t tokens_before(int64_t step) const;
  int64_t step_of(int64_t sample) const;
  // Returns the first step at whose beginning `total` > `tokens` tokens are consumed.
  int64_t step_after_tokens(int64_t total) const;
};

// Maps steps and data-parallel ranks to samples. Each step reads the samples that follow those of
// the previous step; the first step after a resume reads those that follow the consumed ones. With
// R data-parallel ranks and b = micro, micro-batch m of rank r has samples (m·R + r)·b + [0, b) of
// its step, so the micro-batches m of all ranks are R·b consecutive samples.
struct BatchShape {
  int64_t global = 1;           // sequences per step, after batch-size warm-up
  int64_t micro = 1;            // sequences per micro-batch and rank; global = micro × ranks × m
  int64_t sequence_length = 0;  // T
  int64_t rank = 0, ranks = 1;  // data-parallel rank and their number
  int64_t source_length = 0;    // S, the length of the encoder input; 0: there is no encoder
  int64_t references = 0;       // R, the figures of a pair of answers; 0: rows have none
  std::vector<int64_t> ramp = {};
  int64_t ramp_steps = 0;

  // The point at which the run resumes: completed steps, and the samples and tokens they consumed.
  int64_t first_step = 0, first_sample = 0, first_tokens = 0;
  std::vector<BatchPeriod> past = {};  // periods of the steps before first_step, oldest first

  // `step` counts from 0. For steps before first_step, `past` is used.
  int64_t global_at(int64_t step) const;
  int64_t samples_before(int64_t step) const;
  int64_t tokens_before(int64_t step) const;
  int64_t step_of(int64_t sample) const;
  // Returns the number of steps after which the run has consumed `total` > 0 tokens or more, as
  // tokens_before() counts; first_step if it has consumed them before that step.
  int64_t steps_for_tokens(int64_t total) const;
  int64_t microbatches(int64_t step) const { return global_at(step) / (micro * ranks); }
  int64_t sample_of(int64_t step, int64_t microbatch) const {
    return samples_before(step) + (microbatch * ranks + rank) * micro;
  }

  // Returns the period that begins at first_step, which is part of `past` after the next resume.
  BatchPeriod period() const;
};

// The tokens of each row that a rank reads if several ranks share a sequence: part `index` of
// `count` equal ones; with `zigzag` the chunks `index` and 2 · count − 1 − index of 2 · count.
// Documents are read whole.
struct RowPart {
  int64_t index = 0, count = 1;
  bool zigzag = false;
};

// Copies the part of each row of `whole` [rows, T] to `out` [rows, T / count].
void copy_part(std::span<const int32_t> whole, int64_t rows, RowPart part, std::span<int32_t> out);

// The inputs of one depth d of multi-token prediction: at position t the token and the label of
// position t + d of the row, or token 0 and kIgnoredLabel after its end. With documents, labels in
// another document than position t are kIgnoredLabel.
struct MtpView {
  std::span<int32_t> tokens, labels;  // [b, T / part.count]
};

// Writes the rows of depth `depth`. `documents`: [rows, T], or empty.
void fill_mtp(std::span<const int32_t> tokens, std::span<const int32_t> labels,
              std::span<const int32_t> documents, int64_t rows, int64_t depth, RowPart part,
              const MtpView& out);

// The memory to which a micro-batch is written, in rows (SampleRow).
struct BatchView {
  std::span<int32_t> tokens;          // [b, T / part.count]
  std::span<int32_t> labels;          // [b, T / part.count]
  std::span<int32_t> positions;       // [b, T / part.count]
  std::span<int64_t> samples;         // [b]     global sample numbers
  std::span<int32_t> documents = {};  // [b, T]  document numbers; empty: not needed
  std::span<int32_t> source = {};     // [b, S]
  std::span<int32_t> answers = {};    // [b, T / part.count]
  std::span<double> references = {};  // [b, R]
  RowPart part = {};
  std::vector<MtpView> mtp = {};  // by depth, from 1; empty: not needed
};

// Writes a sample to the front of `out` [T + 1] and returns the number of its tokens: fewer than
// T + 1 only at the end of a validation set, 0 after it.
using SampleReader = std::function<int64_t(int64_t sample, std::span<int32_t> out)>;

// Reads micro-batches on its own thread, up to `ahead` of them before they are requested. Only that
// thread calls the reader. All memory is allocated by the constructor.
class BatchSource {
 public:
  BatchSource(BatchShape shape, RowReader reader, int ahead = 4);
  // For samples of consecutive tokens: rows are filled by fill_row().
  BatchSource(BatchShape shape, SampleReader reader, int ahead = 4);
  ~BatchSource();  // stops the thread, even while it reads ahead
  BatchSource(BatchSource&&) noexcept;

  const BatchShape& shape() const;

  // Copies micro-batch `microbatch` of step `step`, which is at least first_step, to `out`. Fast if
  // micro-batches are requested in order; after a jump, reading ahead restarts there. Throws what
  // the reader threw.
  void fill(int64_t step, int64_t microbatch, const BatchView& out);

 private:
  class Prefetch;
  std::unique_ptr<Prefetch> prefetch_;
};

}  // namespace tessera::data

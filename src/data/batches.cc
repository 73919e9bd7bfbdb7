// Reads micro-batches ahead on a thread, and maps steps to samples.
//
// The reader thread fills a ring of slots. Micro-batches of this rank are numbered consecutively
// from first_step, through all steps: each number is for micro × ranks samples, whatever the global
// batch of its step is, so a batch-size warm-up does not change the numbering. A consumer that
// requests the numbers in order waits only if the reader has not reached one; a request for another
// number (validation from its start) moves the window there.
#include "data/batches.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "base/error.h"

namespace tessera::data {

// Micro-batch number n is in slot n mod slots. The reader thread stays within one round of the next
// number that fill() expects, so it never writes a slot that is being copied.
class BatchSource::Prefetch {
 public:
  Prefetch(BatchShape shape, RowReader reader, int ahead)
      : shape_(shape), reader_(std::move(reader)), slots_(std::max(1, ahead)) {
    const size_t places = shape.micro * shape.sequence_length;
    for (Slot& slot : slots_) {
      for (auto* values : {&slot.tokens, &slot.labels, &slot.positions, &slot.documents}) {
        values->resize(places);
      }
      slot.source.resize(shape.micro * shape.source_length);
      if (shape.references > 0) slot.answers.resize(places);
      slot.references.resize(shape.micro * shape.references);
    }
  }
  ~Prefetch() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  struct Slot {
    std::vector<int32_t> tokens, labels, positions, documents;  // [b, T]
    std::vector<int32_t> source;                                // [b, S]
    std::vector<int32_t> answers;                               // [b, T], or empty
    std::vector<double> references;                             // [b, R]
    std::exception_ptr error;
  };

  template <class F>
  void take(int64_t number, F use) {
    std::unique_lock lock(mutex_);
    if (!thread_.joinable()) {  // started by the first request, so reading ahead begins there
      wanted_ = made_ = number;
      thread_ = std::thread([this] { work(); });
    } else if (number != wanted_) {
      wanted_ = made_ = number;
      ++jumps_;
      changed_.notify_all();
    }
    // Waits until the reader thread has produced this number. After a jump, `made_` was reset to
    // it.
    Slot& slot = slots_[number % std::ssize(slots_)];
    changed_.wait(lock, [&] { return made_ > number; });
    lock.unlock();  // the thread does not write this slot until wanted_ increases
    if (slot.error) std::rethrow_exception(slot.error);
    use(slot);
    lock.lock();
    ++wanted_;
    changed_.notify_all();
  }

  const BatchShape& shape() const { return shape_; }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto room = [this] { return made_ < wanted_ + std::ssize(slots_); };
      changed_.wait(lock, [&] { return stop_ || room(); });
      if (stop_) return;
      const int64_t number = made_, jumps = jumps_;
      lock.unlock();
      read(number, slots_[number % std::ssize(slots_)]);
      lock.lock();
      // If the window was moved while this slot was being read, the slot has a number that is no
      // longer needed. It is not counted, and the loop reads the first number of the new window.
      if (jumps == jumps_) {
        ++made_;
        changed_.notify_all();
      }
    }
  }

  void read(int64_t number, Slot& slot) {
    const int64_t first =
        shape_.first_sample + (number * shape_.ranks + shape_.rank) * shape_.micro;
    const auto row = [](auto& values, int64_t i, int64_t length) {
      return std::span(values).subspan(i * length, length);
    };
    const int64_t t = shape_.sequence_length, r = shape_.references;
    slot.error = nullptr;
    // An error belongs to the number that caused it. fill() throws it when that number is
    // requested, so an error in data after the last step does not fail the run.
    try {
      for (int64_t i = 0; i < shape_.micro; ++i) {
        reader_(first + i,
                {row(slot.tokens, i, t), row(slot.labels, i, t), row(slot.positions, i, t),
                 row(slot.documents, i, t), row(slot.source, i, shape_.source_length),
                 row(slot.answers, i, r > 0 ? t : 0), row(slot.references, i, r)});
      }
    } catch (...) {
      slot.error = std::current_exception();
    }
  }

  BatchShape shape_;
  RowReader reader_;
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t wanted_ = 0, made_ = 0;  // numbers [wanted_, made_) are in the slots
  int64_t jumps_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

// Stage i of the warm-up covers steps [i * ramp_steps, (i + 1) * ramp_steps).
int64_t BatchRule::at(int64_t step) const {
  const int64_t stage = ramp.empty() ? 0 : step / ramp_steps;
  return stage < std::ssize(ramp) ? ramp[stage] : global;
}

int64_t BatchRule::before(int64_t step) const {
  int64_t samples = 0;
  for (const int64_t g : ramp) {
    const int64_t steps = std::min(step, ramp_steps);
    samples += steps * g;
    step -= steps;
  }
  return samples + step * global;
}

// The inverse of before(): walks the stages of the warm-up and divides within one.
int64_t BatchRule::step_of(int64_t place) const {
  int64_t step = 0;
  for (const int64_t g : ramp) {
    if (place / g < ramp_steps) return step + place / g;
    place -= ramp_steps * g;
    step += ramp_steps;
  }
  return step + place / global;
}

// The rule counts from step 0 of the run, so a period that begins later subtracts the samples of
// the rule before its first step.
int64_t BatchPeriod::samples_before(int64_t at) const {
  return sample + sizes().before(at) - sizes().before(step);
}

int64_t BatchPeriod::tokens_before(int64_t at) const {
  return tokens + (samples_before(at) - sample) * row_tokens;
}

int64_t BatchPeriod::step_of(int64_t one) const {
  return sizes().step_of(one - sample + sizes().before(step));
}

int64_t BatchPeriod::step_after_tokens(int64_t total) const {
  const int64_t samples = (total - tokens - 1) / row_tokens + 1;  // rounded up
  return step_of(sample + samples - 1) + 1;
}

namespace {

// Returns the last period whose `member` is at most `value`. Periods are ordered by step and by
// sample.
const BatchPeriod& period_of(const std::vector<BatchPeriod>& past, int64_t BatchPeriod::*member,
                             int64_t value) {
  const auto after = std::find_if(past.begin(), past.end(),
                                  [&](const BatchPeriod& p) { return p.*member > value; });
  CHECK(after != past.begin(), "there is no batch period at or before {}", value);
  return *(after - 1);
}

}  // namespace

BatchPeriod BatchShape::period() const {
  return {first_step, first_sample, first_tokens, sequence_length + source_length,
          global,     ramp,         ramp_steps};
}

// Steps before the current period follow the rule of their own period.
int64_t BatchShape::global_at(int64_t step) const {
  if (step < first_step) return period_of(past, &BatchPeriod::step, step).sizes().at(step);
  return period().sizes().at(step);
}

int64_t BatchShape::samples_before(int64_t step) const {
  if (step < first_step) return period_of(past, &BatchPeriod::step, step).samples_before(step);
  return period().samples_before(step);
}

int64_t BatchShape::tokens_before(int64_t step) const {
  if (step < first_step) return period_of(past, &BatchPeriod::step, step).tokens_before(step);
  return period().tokens_before(step);
}

int64_t BatchShape::steps_for_tokens(int64_t total) const {
  return total <= first_tokens ? first_step : period().step_after_tokens(total);
}

int64_t BatchShape::step_of(int64_t sample) const {
  if (sample < first_sample) return period_of(past, &BatchPeriod::sample, sample).step_of(sample);
  return period().step_of(sample);
}

namespace {

RowReader rows_of(SampleReader reader, int64_t length) {
  return [reader = std::move(reader), ids = std::vector<int32_t>(length + 1)](
             int64_t sample, const SampleRow& row) mutable {
    const int64_t count = reader(sample, ids);
    fill_row(std::span(ids).first(count), row);
  };
}

}  // namespace

BatchSource::BatchSource(BatchShape shape, SampleReader reader, int ahead)
    : BatchSource(shape, rows_of(std::move(reader), shape.sequence_length), ahead) {}

BatchSource::BatchSource(BatchShape shape, RowReader reader, int ahead) {
  CHECK(shape.micro > 0 && shape.ranks > 0 && shape.sequence_length > 0 && shape.global > 0 &&
            shape.global % (shape.micro * shape.ranks) == 0,
        "a global batch of {} in micro-batches of {} on {} ranks", shape.global, shape.micro,
        shape.ranks);
  CHECK(shape.ramp.empty() || shape.ramp_steps > 0, "a batch-size warm-up of {} steps per size",
        shape.ramp_steps);
  for (const int64_t g : shape.ramp)
    CHECK(g > 0 && g % (shape.micro * shape.ranks) == 0, "a batch of {} in the warm-up", g);
  CHECK(shape.rank >= 0 && shape.rank < shape.ranks, "rank {} of {}", shape.rank, shape.ranks);
  prefetch_ = std::make_unique<Prefetch>(shape, std::move(reader), ahead);
}
BatchSource::~BatchSource() = default;
BatchSource::BatchSource(BatchSource&&) noexcept = default;

const BatchShape& BatchSource::shape() const { return prefetch_->shape(); }

void BatchSource::fill(int64_t step, int64_t microbatch, const BatchView& out) {
  const BatchShape& shape = prefetch_->shape();
  const size_t b = shape.micro, t = shape.sequence_length, s = shape.source_length;
  CHECK(step >= shape.first_step && microbatch >= 0 && microbatch < shape.microbatches(step),
        "micro-batch {} of step {}", microbatch, step);
  const size_t tokens = b * t / out.part.count;
  CHECK(out.tokens.size() == tokens && out.labels.size() == tokens &&
            out.positions.size() == tokens && out.samples.size() == b &&
            out.source.size() == b * s && (out.documents.empty() || out.documents.size() == b * t),
        "a micro-batch of {} x {} + {} in views of {}, {}, {}, {}, {} and {}", b, t, s,
        out.tokens.size(), out.labels.size(), out.positions.size(), out.samples.size(),
        out.documents.size(), out.source.size());
  CHECK(std::ssize(out.references) == shape.micro * shape.references &&
            out.answers.size() == (shape.references > 0 ? tokens : 0),
        "{} figures of pairs in views of {} and {}", shape.references, out.references.size(),
        out.answers.size());
  // Sample numbers are global: the same for every layout of data-parallel ranks.
  const int64_t first = shape.sample_of(step, microbatch);
  const int64_t before =
      (shape.samples_before(step) - shape.first_sample) / (shape.micro * shape.ranks);
  prefetch_->take(before + microbatch, [&](const Prefetch::Slot& slot) {
    copy_part(slot.tokens, shape.micro, out.part, out.tokens);
    copy_part(slot.labels, shape.micro, out.part, out.labels);
    copy_part(slot.positions, shape.micro, out.part, out.positions);
    std::copy(slot.source.begin(), slot.source.end(), out.source.begin());
    if (!out.answers.empty()) copy_part(slot.answers, shape.micro, out.part, out.answers);
    std::copy(slot.references.begin(), slot.references.end(), out.references.begin());
    if (!out.documents.empty()) {
      std::copy(slot.documents.begin(), slot.documents.end(), out.documents.begin());
    }
    std::iota(out.samples.begin(), out.samples.end(), first);
    const std::span<const int32_t> documents =
        out.documents.empty() ? std::span<const int32_t>() : slot.documents;
    for (size_t d = 0; d < out.mtp.size(); ++d)
      fill_mtp(slot.tokens, slot.labels, documents, shape.micro, static_cast<int64_t>(d) + 1,
               out.part, out.mtp[d]);
  });
}

void copy_part(std::span<const int32_t> whole, int64_t rows, RowPart part, std::span<int32_t> out) {
  const int64_t length = std::ssize(whole) / rows, kept = length / part.count;
  CHECK(kept * part.count == length && std::ssize(out) == rows * kept,
        "part {} of {} of {} rows of {} in {}", part.index, part.count, rows, length, out.size());
  CHECK(!part.zigzag || kept % 2 == 0, "two chunks of {} tokens", kept);
  const int64_t n = part.zigzag ? kept / 2 : kept;  // tokens of a chunk
  for (int64_t r = 0; r < rows; ++r) {
    const auto row = whole.begin() + r * length;
    const auto to = out.begin() + r * kept;
    std::copy_n(row + part.index * n, n, to);
    if (part.zigzag) std::copy_n(row + (2 * part.count - 1 - part.index) * n, n, to + n);
  }
}

namespace {

// Returns the position in its row of token t of the `kept` tokens of a part.
int64_t place_in_row(RowPart part, int64_t kept, int64_t t) {
  if (!part.zigzag) return part.index * kept + t;
  const int64_t n = kept / 2;
  return t < n ? part.index * n + t : (2 * part.count - 1 - part.index) * n + t - n;
}

}  // namespace

void fill_mtp(std::span<const int32_t> tokens, std::span<const int32_t> labels,
              std::span<const int32_t> documents, int64_t rows, int64_t depth, RowPart part,
              const MtpView& out) {
  const int64_t length = std::ssize(tokens) / rows, kept = length / part.count;
  CHECK(std::ssize(out.tokens) == rows * kept && std::ssize(out.labels) == rows * kept,
        "{} and {} tokens of {} rows of {}", out.tokens.size(), out.labels.size(), rows, kept);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t t = 0; t < kept; ++t) {
      const int64_t at = place_in_row(part, kept, t), from = at + depth;
      const int64_t row = r * length, to = r * kept + t;
      const bool exists = from < length;
      const bool same =
          documents.empty() || (exists && documents[row + at] == documents[row + from]);
      out.tokens[to] = exists ? tokens[row + from] : 0;
      out.labels[to] = exists && same ? labels[row + from] : kIgnoredLabel;
    }
}

void fill_row(std::span<const int32_t> ids, const SampleRow& row) {
  const size_t length = row.tokens.size(), known = std::min(ids.size(), length);
  for (size_t t = 0; t < known; ++t) {
    row.tokens[t] = ids[t];
    row.labels[t] = t + 1 < ids.size() ? ids[t + 1] : kIgnoredLabel;
    row.documents[t] = 0;
  }
  clear_row(known, row);
  std::iota(row.positions.begin(), row.positions.end(), 0);
}

void clear_row(size_t from, const SampleRow& row) {
  for (size_t t = from; t < row.tokens.size(); ++t) {
    row.tokens[t] = 0;
    row.labels[t] = kIgnoredLabel;
    row.positions[t] = static_cast<int32_t>(t);
    row.documents[t] = kNoDocument;
    if (!row.answers.empty()) row.answers[t] = kNoAnswer;
  }
}

}  // namespace tessera::data

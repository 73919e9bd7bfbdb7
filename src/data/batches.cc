#include "data/batches.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"

namespace tessera {

// Micro-batches are numbered through all steps. Number n lies in slot n mod slots; the thread stays
// less than one round ahead of the number that is wanted next.
class BatchSource::Prefetch {
 public:
  Prefetch(BatchShape shape, SampleReader reader, int ahead)
      : shape_(shape), reader_(std::move(reader)), slots_(static_cast<size_t>(std::max(1, ahead))) {
    for (Slot& slot : slots_) {
      slot.ids.resize(static_cast<size_t>(shape.micro * (shape.sequence_length + 1)));
      slot.counts.resize(static_cast<size_t>(shape.micro));
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
    int64_t number = -1;          // of the micro-batch in it; −1: none
    std::vector<int32_t> ids;     // [b, T + 1]
    std::vector<int64_t> counts;  // [b]
    std::exception_ptr error;
  };

  template <class F>
  void take(int64_t number, F use) {
    std::unique_lock lock(mutex_);
    if (!thread_.joinable()) {  // not before the first use: reading ahead starts where it is needed
      wanted_ = made_ = number;
      thread_ = std::thread([this] { work(); });
    } else if (number != wanted_) {
      wanted_ = made_ = number;
      ++jumps_;
      changed_.notify_all();
    }
    Slot& slot = slots_[static_cast<size_t>(number) % slots_.size()];
    changed_.wait(lock, [&] { return made_ > number; });
    lock.unlock();  // the thread leaves this slot alone until wanted_ moves on
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
      const auto room = [this] { return made_ < wanted_ + static_cast<int64_t>(slots_.size()); };
      changed_.wait(lock, [&] { return stop_ || room(); });
      if (stop_) return;
      const int64_t number = made_, jumps = jumps_;
      lock.unlock();
      read(number, slots_[static_cast<size_t>(number) % slots_.size()]);
      lock.lock();
      if (jumps == jumps_) {
        ++made_;
        changed_.notify_all();
      }
    }
  }

  void read(int64_t number, Slot& slot) {
    const int64_t m = shape_.microbatches();
    const int64_t first = shape_.first_sample(number / m, number % m);
    const auto row = static_cast<size_t>(shape_.sequence_length + 1);
    slot.error = nullptr;
    try {
      for (size_t i = 0; i < slot.counts.size(); ++i) {
        const auto ids = std::span(slot.ids).subspan(i * row, row);
        slot.counts[i] = reader_(first + static_cast<int64_t>(i), ids);
      }
    } catch (...) {
      slot.error = std::current_exception();
    }
  }

  BatchShape shape_;
  SampleReader reader_;
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t wanted_ = 0, made_ = 0;  // numbers [wanted_, made_) are in the slots
  int64_t jumps_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

BatchSource::BatchSource(BatchShape shape, SampleReader reader, int ahead) {
  CHECK(shape.micro > 0 && shape.ranks > 0 && shape.sequence_length > 0 && shape.global > 0 &&
            shape.global % (shape.micro * shape.ranks) == 0,
        "a global batch of {} in micro-batches of {} on {} ranks", shape.global, shape.micro,
        shape.ranks);
  CHECK(shape.rank >= 0 && shape.rank < shape.ranks, "rank {} of {}", shape.rank, shape.ranks);
  prefetch_ = std::make_unique<Prefetch>(shape, std::move(reader), ahead);
}
BatchSource::~BatchSource() = default;
BatchSource::BatchSource(BatchSource&&) noexcept = default;

const BatchShape& BatchSource::shape() const { return prefetch_->shape(); }

void BatchSource::fill(int64_t step, int64_t microbatch, const BatchView& out) {
  const BatchShape& shape = prefetch_->shape();
  const auto b = static_cast<size_t>(shape.micro), t = static_cast<size_t>(shape.sequence_length);
  CHECK(step >= 0 && microbatch >= 0 && microbatch < shape.microbatches(),
        "micro-batch {} of step {}", microbatch, step);
  CHECK(out.tokens.size() == b * t && out.labels.size() == b * t && out.positions.size() == b * t &&
            out.samples.size() == b,
        "a micro-batch of {} x {} in views of {}, {}, {} and {}", b, t, out.tokens.size(),
        out.labels.size(), out.positions.size(), out.samples.size());
  const int64_t first = shape.first_sample(step, microbatch);
  prefetch_->take(step * shape.microbatches() + microbatch, [&](const Prefetch::Slot& slot) {
    for (size_t i = 0; i < b; ++i) {
      const int32_t* ids = slot.ids.data() + i * (t + 1);
      const auto count = static_cast<size_t>(slot.counts[i]);
      for (size_t j = 0; j < t; ++j) {
        out.tokens[i * t + j] = j < count ? ids[j] : 0;
        out.labels[i * t + j] = j + 1 < count ? ids[j + 1] : kIgnoredLabel;
        out.positions[i * t + j] = static_cast<int32_t>(j);
      }
      out.samples[i] = first + static_cast<int64_t>(i);
    }
  });
}

}  // namespace tessera

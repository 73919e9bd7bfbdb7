// The current long wait of a run, written by its thread and read by any other thread.
#pragma once

#include <mutex>
#include <utility>

#include "runtime/events.h"

namespace tessera::runtime {

// A wait is reported once per kLongWait sleeps of comm::Backoff (some milliseconds).
constexpr int64_t kLongWait = 100;

class WaitReport {
 public:
  void set(Waiting waiting) {
    const std::lock_guard lock(mutex_);
    waiting_ = std::move(waiting);
  }
  void clear() { set({}); }
  Waiting get() const {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }

 private:
  mutable std::mutex mutex_;
  Waiting waiting_;
};

}  // namespace tessera::runtime

// A thread that advances transfers while its owner computes. It holds the mutex only while it
// polls, and sleeps 500 µs between polls, so the kernels lose almost no CPU time.
#include "runtime/progress_thread.h"

#include <chrono>

namespace tessera::runtime {
namespace {

constexpr std::chrono::microseconds kSleep(500);

}  // namespace

ProgressThread::ProgressThread(std::mutex& mutex, std::function<bool()> move)
    : mutex_(mutex), move_(std::move(move)), thread_([this] { loop(); }) {}

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ProgressThread::wake() {
  if (awake_) return;
  awake_ = true;
  changed_.notify_one();
}

void ProgressThread::loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    changed_.wait(lock, [this] { return awake_ || stop_; });
    while (!stop_ && move_()) {
      lock.unlock();
      std::this_thread::sleep_for(kSleep);
      lock.lock();
    }
    awake_ = false;
  }
}

}  // namespace tessera::runtime

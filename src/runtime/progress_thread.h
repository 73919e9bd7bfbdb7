// A thread that advances transfers while another thread computes: it polls every half millisecond.
// docs/decisions/progress.md explains why polling between ops is not enough.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tessera::runtime {

class ProgressThread {
 public:
  // `move` advances the transfers. It is called with the mutex held, returns whether there is more
  // to do, and must not throw.
  ProgressThread(std::mutex& mutex, std::function<bool()> move);
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  void wake();  // to be called with the mutex held, when there is something to advance

 private:
  void loop();

  std::mutex& mutex_;
  std::function<bool()> move_;
  std::condition_variable changed_;
  bool awake_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace tessera::runtime

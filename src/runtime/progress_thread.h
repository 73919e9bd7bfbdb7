// A thread that makes progress on transfers while another computes: it polls every half
// millisecond. Why not between ops: docs/decisions/progress.md.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tessera::runtime {

class ProgressThread {
 public:
  // `move` is called with the mutex held, and returns whether there is more to do. It must not
  // throw.
  ProgressThread(std::mutex& mutex, std::function<bool()> move);
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  void wake();  // to be called with the mutex held, when there is something to move

 private:
  void loop();

  std::mutex& mutex_;
  std::function<bool()> move_;
  std::condition_variable changed_;
  bool awake_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace tessera::runtime

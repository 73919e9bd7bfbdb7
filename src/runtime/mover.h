// A thread that moves transfers on while another computes: it asks, sleeps half a millisecond, and
// asks again. Why not between ops: docs/decisions/progress.md.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tessera {

class Mover {
 public:
  // `move` is called with the mutex held, and says whether there is more to come. It throws
  // nothing.
  Mover(std::mutex& mutex, std::function<bool()> move);
  ~Mover();
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  void wake();  // there is something to move; the mutex is held

 private:
  void loop();

  std::mutex& mutex_;
  std::function<bool()> move_;
  std::condition_variable changed_;
  bool awake_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace tessera

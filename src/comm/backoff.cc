// Backoff for a thread that must poll: 20 rounds without a pause, 200 that yield the processor,
// then 50 µs of sleep per round. A message that is about to arrive is found at once, and a long
// wait leaves the core to the threads that compute.
#include "comm/backoff.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace tessera::comm {
namespace {

constexpr int64_t kSpins = 20;
constexpr int64_t kYields = 200;
constexpr std::chrono::microseconds kSleep(50);

}  // namespace

void Backoff::pause() {
  ++rounds_;
  if (rounds_ <= kSpins) return;
  if (rounds_ <= kSpins + kYields)
    sched_yield();
  else
    std::this_thread::sleep_for(kSleep);
}

int64_t Backoff::sleeps() const { return std::max<int64_t>(0, rounds_ - kSpins - kYields); }

void wait_for(Communicator& c, Ticket t) {
  Backoff backoff;
  while (!c.done(t)) {
    if (c.progress())
      backoff.moved();
    else
      backoff.pause();
  }
}

}  // namespace tessera::comm

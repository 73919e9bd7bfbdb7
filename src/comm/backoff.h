// Backoff for a thread that polls for messages which only its own calls of progress() advance: it
// polls without a pause at first, then yields the processor between polls, then sleeps between
// them. See docs/decisions/progress.md.
#pragma once

#include <cstdint>

#include "comm/communicator.h"

namespace tessera::comm {

class Backoff {
 public:
  void moved() { rounds_ = 0; }  // call after progress: the next wait starts from the beginning
  void pause();                  // call after a poll without progress
  // Returns the number of sleeps since the last moved(). Callers report a wait once this is large.
  int64_t sleeps() const;

 private:
  int64_t rounds_ = 0;
};

// Waits until transfer `t` of `c` is done.
void wait_for(Communicator& c, Ticket t);

}  // namespace tessera::comm

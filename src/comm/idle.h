// How a thread waits for messages that only it can move on: it asks again at once for a while, then
// lets others run first, then sleeps between the questions. See docs/decisions/progress.md.
#pragma once

#include <cstdint>

#include "comm/communicator.h"

namespace tessera::comm {

class Idle {
 public:
  void moved() { rounds_ = 0; }  // something happened: the wait starts anew
  void pause();                  // nothing did
  // How often it has slept in this wait: a wait that is worth telling of.
  int64_t sleeps() const;

 private:
  int64_t rounds_ = 0;
};

// Until that transfer is over.
void wait_for(Communicator& c, Ticket t);

}  // namespace tessera::comm

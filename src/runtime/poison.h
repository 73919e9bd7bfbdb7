// Every byte whose value is dead is NaN: a read of it shows in the loss.
#pragma once

#include "runtime/arenas.h"

namespace tessera {

class Poison {
 public:
  // The program and its memory outlive this.
  Poison(const Program& program, Arenas arenas);

  void start();           // of a run
  void before(CallId c);  // what it writes first, and the scratch of its queue
  void after(CallId c);   // what no call of the run still needs
 private:
  void spoil(FrameId f) const;

  const Program& program_;
  Arenas arenas_;
  std::vector<CallId> first_;   // of each frame: the call that touches it first
  std::vector<int64_t> calls_;  // of each frame: how many touch it
  std::vector<int64_t> left_;   // of these, how many are not over
};

}  // namespace tessera

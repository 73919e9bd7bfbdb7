// Every byte whose value is dead is NaN: a read of it shows in the loss.
#pragma once

#include "runtime/bound_program.h"

namespace tessera::runtime {

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
  IdVector<FrameId, CallId> first_;   // the first call that touches each frame
  IdVector<FrameId, int64_t> calls_;  // the number of calls that touch it
  IdVector<FrameId, int64_t> left_;   // the number of these that are not done
};

}  // namespace tessera::runtime

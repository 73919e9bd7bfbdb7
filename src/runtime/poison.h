// Every byte whose value is dead is NaN: a read of it shows in the loss.
#pragma once

#include "ir/program.h"

namespace tessera {

class Poison {
 public:
  // Both outlive this.
  Poison(const Program& program, std::byte* arena, std::byte* host_arena);

  void start();           // of a run
  void before(CallId c);  // what it writes first, and the scratch of its queue
  void after(CallId c);   // what no call of the run still needs
 private:
  void spoil(FrameId f) const;

  const Program& program_;
  std::byte *arena_, *host_arena_;
  std::vector<CallId> first_;   // of each frame: the call that touches it first
  std::vector<int64_t> calls_;  // of each frame: how many touch it
  std::vector<int64_t> left_;   // of these, how many are not over
};

}  // namespace tessera

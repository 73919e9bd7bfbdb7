// Fills bytes outside the lifetime of their buffer with NaN, so that a read of them appears in the
// loss.
#pragma once

#include "runtime/bound_program.h"

namespace tessera::runtime {

class Poison {
 public:
  // The program and its memory must outlive this object.
  Poison(const Program& program, Arenas arenas);

  void start();           // to be called at the start of a run
  void before(CallId c);  // fills the buffers that c uses first, and the scratch of its queue
  void after(CallId c);   // fills the buffers whose calls are all complete
 private:
  void spoil(BufferId f) const;

  const Program& program_;
  Arenas arenas_;
  IdVector<BufferId, CallId> first_;   // the first call that uses each buffer
  IdVector<BufferId, int64_t> calls_;  // the number of calls that use it
  IdVector<BufferId, int64_t> left_;   // the number of these calls that are not complete
};

}  // namespace tessera::runtime

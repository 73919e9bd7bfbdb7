// Several programs over the same state: one library of kernels, one arena, an executor each.
#pragma once

#include <memory>
#include <vector>

#include "compile/pieces.h"
#include "runtime/executor.h"

namespace tessera {

class Machine {
 public:
  // The first program's state frames are the run's; the others must agree on their offsets. The
  // arena is as large as the largest program. Throws Error if the system refuses the memory.
  Machine(std::vector<Program> programs, std::unique_ptr<Library> library, bool poison = false);

  Executor& executor(size_t program) { return executors_[program]; }
  const Program& program(size_t i = 0) const { return executors_[i].program(); }
  int64_t arena_bytes() const { return arena_.bytes(); }
  void touch() const { arena_.touch(); }
  Library& library() { return *library_; }

  // The elements of a piece, in the extents of its box.
  TensorView view(const StatePiece& piece) const;

  // Fresh weights by (seed, name, global element), the same on any layout; moments zero.
  void initialise(uint64_t seed);
  // After masters were written from outside: the weights that products read.
  void round_weights();

 private:
  TensorView elements(FrameKindId kind, int64_t layer, int64_t first, int64_t count) const;

  std::unique_ptr<Library> library_;
  Buffer arena_;
  std::vector<Executor> executors_;
};

}  // namespace tessera

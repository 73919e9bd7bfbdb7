// Several programs over the same state: one set of prepared kernels, one arena, an executor each.
#pragma once

#include <memory>
#include <vector>

#include "ir/state/pieces.h"
#include "runtime/executor.h"

namespace tessera::runtime {

struct MachineOptions {
  comm::World* world =
      nullptr;          // that the programs' mesh is of, outlives the machine; nullptr: one rank
  bool poison = false;  // see poison.h
  std::function<double()> now_s = {};  // without it, communication takes no time
};

class Machine {
 public:
  // The first program's state frames are the run's; the others must agree on their offsets. The
  // arena is as large as the largest program. Every rank of the world makes its own at the same
  // time. Throws Error if the system refuses the memory.
  Machine(std::vector<Program> programs, std::unique_ptr<PreparedKernels> kernels,
          MachineOptions options = {});

  // What the executors of all programs call; may be set between runs.
  RunHooks& hooks() { return hooks_; }
  // The transport between ranks, and why it is not NCCL, for the log.
  const std::string& transport() const { return transport_; }
  Executor& executor(size_t program) { return *executors_[program]; }
  const Program& program(size_t i = 0) const { return bound_[i]->program(); }
  const Position& position() const { return channels_.position(); }
  int64_t host_arena_bytes() const { return host_arena_.bytes(); }
  int64_t arena_bytes() const { return arena_->bytes(); }
  int64_t planned_bytes() const;  // of the largest program
  void touch() const {            // see Arena::touch
    arena_->touch(kernels_->threads());
    host_arena_.touch(kernels_->threads());
  }
  PreparedKernels& kernels() { return *kernels_; }
  const PreparedKernels& kernels() const { return *kernels_; }

  // Returns the elements of a piece of that program, in the extents of its box; on a GPU a
  // copy of them on the host, made now. Programs agree on state; gradients have other offsets in
  // each.
  TensorView view(const StatePiece& piece, size_t program = 0) const;
  // After the host wrote to what view() gave.
  void written(const TensorView& view) const;

  // Fresh weights by (seed, name, global element), the same on any layout; moments zero.
  void initialise(uint64_t seed);
  void initialise(const StatePiece& piece, uint64_t seed);
  // After masters were written from outside: the weights that products read.
  void round_weights();

 private:
  std::unique_ptr<comm::World> device_world(comm::World& world);
  void make_executors(std::vector<Program> programs, bool poison);
  // Returns where the programs have them.
  TensorView elements(const Program& program, FrameKindId kind, int64_t layer, int64_t first,
                      int64_t count) const;

  std::unique_ptr<PreparedKernels> kernels_;
  std::string transport_ = "one rank";
  std::unique_ptr<comm::World> alone_;    // where no world was given
  std::unique_ptr<comm::World> devices_;  // where each rank has a GPU of its own
  Channels channels_;
  Buffer host_arena_;  // of what is offloaded
  std::unique_ptr<Arena> arena_;
  RunHooks hooks_;
  std::vector<std::unique_ptr<BoundProgram>> bound_;
  std::vector<std::unique_ptr<Executor>> executors_;
};

}  // namespace tessera::runtime

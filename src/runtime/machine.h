// Several programs over the same state: one set of prepared kernels, one arena, an executor each.
#pragma once

#include <memory>
#include <vector>

#include "ir/state/pieces.h"
#include "runtime/executor.h"

namespace tessera {

struct MachineOptions {
  World* world = nullptr;  // that the programs' mesh is of, outlives the machine; nullptr: one rank
  bool poison = false;     // see poison.h
  std::function<double()> now_s = {};  // without it, communication takes no time
};

class Machine {
 public:
  // The first program's state frames are the run's; the others must agree on their offsets. The
  // arena is as large as the largest program. Every rank of the world makes its own at the same
  // time. Throws Error if the system refuses the memory.
  Machine(std::vector<Program> programs, std::unique_ptr<PreparedKernels> kernels,
          MachineOptions options = {});

  // Of all programs: see Executor::on_start.
  void on_start(const std::function<void(const OpStart&)>& started) {
    for (const auto& e : executors_) e->on_start(started);
  }
  // Of all programs: see Executor::before_update.
  void before_update(const std::function<void()>& wait) {
    for (const auto& e : executors_) e->before_update(wait);
  }
  // For all programs: see Executor::on_capture.
  void on_capture(const std::function<void(const std::string&)>& say) {
    for (const auto& e : executors_) e->on_capture(say);
  }
  // The transport between ranks, and why it is not NCCL, for the log.
  const std::string& transport() const { return transport_; }
  Executor& executor(size_t program) { return *executors_[program]; }
  const Program& program(size_t i = 0) const { return executors_[i]->program(); }
  const Position& position() const { return channels_.position(); }
  int64_t host_arena_bytes() const { return host_arena_.bytes(); }
  int64_t arena_bytes() const { return on_gpu() ? device_arena_.bytes() : arena_.bytes(); }
  int64_t planned_bytes() const;  // of the largest program
  void touch() const {            // a device's memory is there from the start
    if (!on_gpu()) arena_.touch();
    host_arena_.touch();
  }
  bool on_gpu() const { return device_arena_.bytes() > 0; }
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
  void pin();
  std::unique_ptr<World> device_world(World& world);
  // Where the programs have them.
  TensorView elements(const Program& program, FrameKindId kind, int64_t layer, int64_t first,
                      int64_t count) const;

  std::unique_ptr<PreparedKernels> kernels_;
  std::string transport_ = "one rank";
  std::unique_ptr<World> alone_;    // where no world was given
  std::unique_ptr<World> devices_;  // where each rank has a GPU of its own
  Channels channels_;
  Buffer arena_;               // on a GPU: the host's copy, of which little is ever touched
  Buffer host_arena_;          // of what is offloaded
  DeviceBuffer device_arena_;  // on a GPU alone
  PinnedPages pinned_;         // of both on the host, what a step exchanges with the device
  std::vector<std::unique_ptr<Executor>> executors_;
};

}  // namespace tessera

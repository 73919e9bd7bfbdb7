// Runs several programs on the same state, with one set of prepared kernels, one arena, and an
// executor per program.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/moment_code.h"
#include "ir/state/local_state.h"
#include "runtime/executor.h"

namespace tessera::runtime {

// The weights that GEMMs read, of an optimizer that keeps iterates (OptimizerTraits::averages).
enum class WeightsRead : uint8_t {
  kTrained,  // between the iterate and the master, where gradients are computed
  kMaster,   // the master, which is their average
};

struct EngineOptions {
  // The ranks of the programs' mesh. Must outlive the engine. nullptr: a single rank.
  comm::World* world = nullptr;
  bool poison = false;                 // see poison.h
  std::function<double()> now_s = {};  // clock; without it, communication times are zero
};

class Engine {
 public:
  // The state buffers of the run are those of the first program; the other programs must have them
  // at the same offsets. The arena is as large as the largest program. Collective: all ranks
  // construct their engines together. Throws Error if the system cannot provide the memory.
  Engine(std::vector<Program> programs, std::unique_ptr<PreparedKernels> kernels,
         EngineOptions options = {});

  // The functions that the executors of all programs call. May be changed between runs.
  RunHooks& hooks() { return hooks_; }
  // Returns the transport between ranks for the log, with the reason if it is not NCCL.
  const std::string& transport() const { return transport_; }
  Executor& executor(size_t program) { return *executors_[program]; }
  const Program& program(size_t i = 0) const { return bound_[i]->program(); }
  const RankPosition& position() const { return communicators_.position(); }
  int64_t host_arena_bytes() const { return host_arena_.bytes(); }
  int64_t arena_bytes() const { return arena_->bytes(); }
  const Arena& arena() const { return *arena_; }
  int64_t planned_bytes() const;  // arena bytes of the largest program
  void touch() const {            // see Arena::touch
    arena_->touch(kernels_->threads());
    host_arena_.touch(kernels_->threads());
  }
  PreparedKernels& kernels() { return *kernels_; }
  const PreparedKernels& kernels() const { return *kernels_; }

  // Returns the elements of a state shard of that program, in the shape of its box. On a GPU the
  // result is a new copy on the host. All programs have their state at the same offsets, but not
  // their gradients.
  TensorView view(const StateShard& shard, size_t program = 0) const;
  // Must be called after the host has written to a result of view().
  void written(const TensorView& view) const;

  // The blocks of 8-bit moments that contain the moments of a shard with StateShard::scales. On a
  // GPU both views are new copies on the host.
  struct MomentBlocks {
    TensorView codes, scales;  // [64 · blocks] u8, [blocks] f32
    MomentCode code = MomentCode::kSigned;
    int64_t first = 0;  // index of the shard's first moment in `codes`
  };
  MomentBlocks moment_blocks(const StateShard& shard) const;
  // Returns the number of moments in the buffer of such a shard, and quantizes all of them.
  int64_t moments_in_buffer(const StateShard& shard) const;
  void write_moments(const StateShard& shard, std::span<const float> all) const;
  // Sets optimizer state to zero.
  void clear(const StateShard& shard) const;

  // Initializes the weights from (seed, name, global element), with the same result for every
  // layout, and the state that starts as its weight; sets the rest of the state to zero. Does not
  // write quantized weights, which are computed from others (Value::of).
  void initialize(uint64_t seed);
  void initialize(const StateShard& shard, uint64_t seed);
  // Rounds the master weights to the weights that GEMMs read, or the weights that belong to them
  // and to the iterates, with the bits that an update gives them. Must be called after the host has
  // written master weights or iterates.
  void round_weights(WeightsRead which = WeightsRead::kTrained);
  // Returns true if an optimizer of the run keeps iterates.
  bool keeps_iterates() const;

 private:
  std::unique_ptr<comm::World> device_world(comm::World& world);
  void make_executors(std::vector<Program> programs, bool poison);
  // Returns the elements in the arena of the device or of the host.
  TensorView elements(const Program& program, BufferKindId kind, int64_t layer, int64_t first,
                      int64_t count) const;

  std::unique_ptr<PreparedKernels> kernels_;
  std::string transport_ = "one rank";
  std::unique_ptr<comm::World> alone_;    // if no world was given
  std::unique_ptr<comm::World> devices_;  // if each rank has its own GPU
  CommunicatorMap communicators_;
  HostBuffer host_arena_;  // for offloaded buffers
  std::unique_ptr<Arena> arena_;
  RunHooks hooks_;
  std::vector<std::unique_ptr<BoundProgram>> bound_;
  std::vector<std::unique_ptr<Executor>> executors_;
};

}  // namespace tessera::runtime

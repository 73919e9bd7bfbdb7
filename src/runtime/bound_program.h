// A program bound to the memory of this rank. Its ops are prepared once, and bound to the buffers
// of a call before the call runs.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "ir/program.h"
#include "runtime/binding.h"
#include "runtime/communicator_map.h"
#include "runtime/prepared_kernels.h"
#include "tensor/arena.h"

namespace tessera::runtime {

struct PreparedOperand {
  ValueId value = kNone;
  int parameter = kNone;  // kNone: scratch
  Chunk chunk = {};       // for ops on a chunk: the sequences of the value that they use
};
// An op with everything bound except the buffer addresses of a call.
struct PreparedOp {
  const Op* op = nullptr;
  const Binding* binding = nullptr;
  BoundOp bound;
  // Returns whether this is a transfer between devices that is enqueued in a stream.
  bool is_on_stream() const {
    return bound.channel && bound.channel->is_on_stream() && bound.channel->size() > 1;
  }
  std::vector<PreparedOperand> in, out;
  FlatMembers members;
  std::vector<bool> adds_first;  // per output: the first op of the segment that adds to the value
  PreparedOperand workspace, packed;
};

// The memory of a program's buffers. Buffers of host kinds are in host memory; their offsets start
// at the end of the arena.
struct Arenas {
  std::byte *arena = nullptr, *host = nullptr;

  std::byte* buffer(const Program& p, BufferId f) const {
    const int64_t offset = p.buffer(f).offset;
    return p.kind(p.buffer(f).kind).host ? host + (offset - p.bytes) : arena + offset;
  }
};

// The memory that a program runs on. All of it must outlive the program.
struct ProgramMemory {
  Arena& arena;               // at least program.bytes bytes
  std::byte* host = nullptr;  // program.host_bytes bytes of host memory
};

class BoundProgram {
 public:
  BoundProgram(Program program, const ProgramMemory& memory, PreparedKernels& kernels,
               const CommunicatorMap& communicators);
  BoundProgram(const BoundProgram&) = delete;
  BoundProgram& operator=(const BoundProgram&) = delete;

  const Program& program() const { return program_; }
  const RankPosition& position() const { return communicators_.position(); }
  const Arena& arena() const { return memory_.arena; }
  Arenas arenas() const { return {memory_.arena.data(), memory_.host}; }
  const CommunicatorMap& communicators() const { return communicators_; }
  int threads() const { return kernels_.threads(); }

  // Assigns the ops of each queue to a stream. `step` is the host copy of the value `step`, or
  // nullptr.
  void use_streams(const std::function<Stream(Queue)>& stream_of, const double* step);

  std::vector<PreparedOp>& ops(CallId c) { return prepared_[program_.call(c).segment]; }
  const std::vector<PreparedOp>& ops(CallId c) const { return prepared_[program_.call(c).segment]; }
  // Writes the addresses of the call's operands to its ops.
  void bind(CallId c);
  // Returns whether the call changes state (weights or optimizer state).
  bool updates(CallId c) const { return updates_[program_.call(c).segment]; }

  // Returns the host's view of a value in a state buffer. layer and microbatch are ignored if the
  // value has no instance per layer or micro-batch. On a GPU the view is a copy: `batch` and `step`
  // are copied to the device before each run, `report` and activations from the device after it.
  TensorView view(ValueId v, int64_t layer = 0, int64_t microbatch = 0) const;
  // Returns the address of the same value for kernels.
  std::byte* device_address(ValueId v, int64_t layer = 0, int64_t microbatch = 0) const;
  // Returns the only value that has this role. CHECKs that there is one.
  ValueId only(Role role) const;
  bool has(Role role) const { return find(role) != kNone; }

  // Returns the groups that this rank communicates with and the communicators it uses for them.
  const std::vector<std::pair<GroupRef, comm::Communicator*>>& used() const { return used_; }
  // Returns the bytes that this rank has sent to each group since the communicators were created.
  std::map<GroupRef, int64_t> bytes_sent() const;
  // Returns the group of the call's first op that communicates; empty if there is none.
  GroupRef group_of_call(CallId c) const;

 private:
  void prepare(const Segment& segment, std::vector<PreparedOp>& out);
  void prepare_members(PreparedOp& p) const;
  void take_chunk(const Op& op, PreparedOp& p) const;
  void prepare_channel(const Op& op, Queue queue, BoundOp& bound);
  void bind(PreparedOp& op, const Call& call, const Segment& segment) const;
  ValueId find(Role role) const;
  std::byte* address(const PreparedOperand& o, const Call& call, const Segment& segment) const;

  Program program_;
  ValueVector local_;  // the values with this rank's shapes, as kernels see them
  ProgramMemory memory_;
  PreparedKernels& kernels_;
  const CommunicatorMap& communicators_;
  IdVector<SegmentId, std::vector<PreparedOp>> prepared_;
  std::vector<std::pair<GroupRef, comm::Communicator*>> used_;
  IdVector<SegmentId, bool> updates_;
};

}  // namespace tessera::runtime

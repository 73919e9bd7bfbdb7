// A program bound to the memory of this rank: its ops prepared once, and bound to the frames of a
// call before the call runs.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "ir/program.h"
#include "runtime/binding.h"
#include "runtime/channels.h"
#include "runtime/prepared_kernels.h"
#include "tensor/arena.h"

namespace tessera::runtime {

struct PreparedOperand {
  ValueId value = kNone;
  int parameter = kNone;  // kNone: scratch
  Chunk chunk = {};       // for ops on a chunk: the part of the value that they use
};
// An op with everything bound except the frame addresses of a call.
struct PreparedOp {
  const Op* op = nullptr;
  const Binding* binding = nullptr;
  BoundOp bound;
  // Whether it is a transfer from device to device, enqueued in a stream.
  bool is_on_stream() const {
    return bound.channel && bound.channel->is_on_stream() && bound.channel->size() > 1;
  }
  std::vector<PreparedOperand> in, out;
  FlatMembers members;
  std::vector<bool> adds_first;  // this output is the first of the segment to add to its value
  PreparedOperand workspace, packed;
};

// The memory of a program's buffers: in the arena, and those of host kinds in memory of the host,
// whose offsets count on from the arena's end.
struct Arenas {
  std::byte *arena = nullptr, *host = nullptr;

  std::byte* frame(const Program& p, FrameId f) const {
    const int64_t offset = p.frame(f).offset;
    return p.kind(p.frame(f).kind).host ? host + (offset - p.bytes) : arena + offset;
  }
};

// What a program runs on. All of it outlives the program.
struct ProgramMemory {
  Arena& arena;               // at least program.bytes bytes
  std::byte* host = nullptr;  // program.host_bytes of the host's memory
};

class BoundProgram {
 public:
  BoundProgram(Program program, const ProgramMemory& memory, PreparedKernels& kernels,
               const Channels& channels);
  BoundProgram(const BoundProgram&) = delete;
  BoundProgram& operator=(const BoundProgram&) = delete;

  const Program& program() const { return program_; }
  const Arena& arena() const { return memory_.arena; }
  Arenas arenas() const { return {memory_.arena.data(), memory_.host}; }
  const Channels& channels() const { return channels_; }
  int threads() const { return kernels_.threads(); }

  // Puts the ops of each queue in a stream. `step` is where the host has the value `step`, or
  // nullptr.
  void use_streams(const std::function<Stream(Queue)>& stream_of, const double* step);

  std::vector<PreparedOp>& ops(CallId c) { return prepared_[program_.call(c).segment]; }
  const std::vector<PreparedOp>& ops(CallId c) const { return prepared_[program_.call(c).segment]; }
  // Sets the addresses of the call's operands in its ops.
  void bind(CallId c);
  // Whether the call changes weights or moments.
  bool updates(CallId c) const { return updates_[program_.call(c).segment]; }

  // Returns the host's view of a value in a state frame. layer and microbatch count only where the
  // value has one for each. On a GPU it is a copy: what is in `batch` and `step` goes there before
  // each run, what is in `report` and activations comes from there after it.
  TensorView view(ValueId v, int64_t layer = 0, int64_t microbatch = 0) const;
  // Returns the address of the same value for kernels.
  std::byte* device_address(ValueId v, int64_t layer = 0, int64_t microbatch = 0) const;
  // Returns the value of a role that one value of the program has. CHECKs that there is one.
  ValueId only(Role role) const;
  bool has(Role role) const { return find(role) != kNone; }

  // The groups that this rank communicates with, and by which communicator.
  const std::vector<std::pair<GroupRef, comm::Communicator*>>& used() const { return used_; }
  // The bytes that this rank has sent to each group since the communicators were made.
  std::map<GroupRef, int64_t> bytes_sent() const;
  // The group of the first op of the call that communicates.
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
  ValueVector local_;  // the values with the shapes of this rank, as kernels know them
  ProgramMemory memory_;
  PreparedKernels& kernels_;
  const Channels& channels_;
  IdVector<SegmentId, std::vector<PreparedOp>> prepared_;
  std::vector<std::pair<GroupRef, comm::Communicator*>> used_;
  IdVector<SegmentId, bool> updates_;
};

}  // namespace tessera::runtime

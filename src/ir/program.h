// Two levels: ops on values, calls on buffers. A model is a few blocks; a training step is a list
// of calls of their segments on buffers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/mesh.h"
#include "ir/op.h"
#include "ir/phase.h"
#include "ir/value.h"

namespace tessera {

using BlockId = Id<struct BlockTag>;
using SegmentId = Id<struct SegmentTag>;
using BufferId = Id<struct BufferTag>;
using CallId = Id<struct CallTag>;

// The hidden states that pass from block to block. A model with an encoder has two streams: kSource
// passes through the encoder, kHidden through the decoder. Other models have only kHidden.
enum class HiddenStream : uint8_t { kHidden, kSource };
constexpr size_t count_of(HiddenStream) { return static_cast<size_t>(HiddenStream::kSource) + 1; }

// One kind of layer of a model: embed, layer, head. It reads `input` from the stream `from` and
// writes `output` to the stream `to`.
//
// A stack is a block with `at`: the numbers of its layers, in ascending order. Layers are numbered
// along their stream, from 0, whichever blocks they belong to: if two kinds of layers alternate,
// one block has 0, 2, 4 and the other 1, 3, 5. Names and dropout masks of a layer depend on its
// number, not on its block.
struct Block {
  std::string name;         // unique: segments and buffer kinds are named after it
  std::vector<int64_t> at;  // empty: the block is not a stack and exists once
  HiddenStream from = HiddenStream::kHidden, to = HiddenStream::kHidden;
  ValueId input = kNone, output = kNone;
  ValueId input_gradient = kNone, output_gradient = kNone;
  std::vector<Op> forward, backward;
  std::vector<Op> weights;    // backward ops that only weight gradients need; may be empty
  bool loss = false;          // ends in a loss: one segment has its forward and backward
  std::vector<ValueId> held;  // weights of the block that no op reads but its stage holds

  // Returns true for a stack of layers, each of which reads what the previous one wrote.
  bool is_stack() const { return input != kNone && output != kNone && from == to; }
  int64_t count() const { return is_stack() ? std::ssize(at) : 1; }
  bool operator==(const Block&) const = default;
};

// The whole model on one logical device.
struct Graph {
  ValueVector values;
  IdVector<BlockId, Block> blocks;
  int64_t sequences = 0, tokens = 0;  // micro-batch B (of one rank) and sequence length T
  int64_t encoder_tokens = 0;         // S, length of an encoder's sequences; 0: no encoder
  // The encoder's output: one block writes it per micro-batch, and all layers of a later stack read
  // it. Its gradient is the f32 sum of their contributions.
  ValueId encoder_output = kNone, encoder_output_gradient = kNone;
  Mesh mesh;

  Value& operator[](ValueId v) { return values[v]; }
  const Value& operator[](ValueId v) const { return values[v]; }
  bool operator==(const Graph&) const = default;
};

// Values with one index and one lifetime, contiguous in memory.
struct BufferKind {
  std::string name;  // "layer.weights"
  std::vector<ValueId> values;
  int64_t bytes = 0;
  uint8_t indexed_by = kOne;
  bool state = false;          // persists across steps
  bool host = false;           // in the host's memory, outside the arena
  BufferKindId like = kNone;   // a flat kind has the elements of that kind's members
  BufferKindId input = kNone;  // for a stream that blocks write: the kind that the next one reads
  BufferKindId factors_of = kNone;  // for Adafactor's factors: the kind of the weights
  std::vector<int64_t> stages;      // the stages that hold it, if there are several
  bool operator==(const BufferKind&) const = default;
};

// A buffer of a kind, used from its first write to its last read. State buffers are permanent.
struct Buffer {
  BufferKindId kind = kNone;
  int64_t layer = kNone, microbatch = kNone;
  int64_t offset = kNone;  // in the arena; for a host kind, from Program::bytes on
  bool state = false;
  bool operator==(const Buffer&) const = default;
};

enum class Access : uint8_t { kRead, kWrite, kAdd, kUpdate };
constexpr size_t count_of(Access) { return static_cast<size_t>(Access::kUpdate) + 1; }

struct Parameter {
  BufferKindId kind = kNone;
  Access access = Access::kRead;
  bool operator==(const Parameter&) const = default;
};

// A straight line of ops, compiled once and called for every layer and micro-batch.
struct Segment {
  Phase phase = Phase::kJoint;
  std::string subject;  // the block, weight group or buffer kind that it works on; may be empty
  std::vector<Parameter> buffers;
  std::vector<Op> ops;
  int64_t scratch_bytes = 0;
  Queue queue = Queue::kCompute;

  std::string name() const;
  // Sets phase and subject from a name that name() returns.
  void set_name(std::string_view name);
  bool operator==(const Segment&) const = default;
};

// The kind of communication of a call.
enum class CommKind : uint8_t {
  kSilent,   // nothing
  kSegment,  // collectives between the ops of a compute segment
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kRotate,
  kSend,
  kReceive
};
constexpr size_t count_of(CommKind) { return static_cast<size_t>(CommKind::kReceive) + 1; }

// The properties of a message or collective, so that `check` never opens a segment.
struct CommSpec {
  CommKind kind = CommKind::kSilent;
  GroupRef over;         // for a collective: the group of ranks
  int64_t peer = kNone;  // for a message: the stage at the other end
  std::string label;     // describes the data; equal on all members
  int64_t bytes = 0;
  bool operator==(const CommSpec&) const = default;
};

// Returns the group of a collective, or "stage:2", the peer of a message; else an empty text.
std::string partners_of(const CommSpec& comm);

struct Call {
  SegmentId segment = kNone;
  int64_t layer = kNone, microbatch = kNone;
  std::vector<BufferId> buffers;  // one per parameter of the segment
  // Per buffer: this call is the first that adds to it, so it writes.
  std::vector<bool> first_write;
  CommSpec comm;
  std::vector<CallId> after, before_step;
  bool operator==(const Call&) const = default;
};

// The program of one pipeline stage.
struct Program {
  std::string name;  // "train", "validate", "logits", "decode"
  Mesh mesh;
  int64_t stage = 0;  // its pipeline coordinate
  // A rank's transfers, of all queues, start in issue order, and each may block the next, as with
  // NCCL on one device. Then the issue orders of all stages must be consistent.
  bool ordered_transfers = false;
  ValueVector values;
  IdVector<BufferKindId, BufferKind> kinds;
  IdVector<SegmentId, Segment> segments;
  IdVector<BufferId, Buffer> buffers;
  IdVector<CallId, Call> schedule;
  int64_t state_bytes = 0;     // the first part of the arena
  int64_t scratch_offset = 0;  // where scratch starts: see scratch_offset() below
  int64_t bytes = 0;           // size of the arena
  int64_t host_bytes = 0;      // size of the host arena, for buffers of host kinds
  int64_t live_bytes = 0;      // most bytes alive at one call

  const Value& operator[](ValueId v) const { return values[v]; }
  const BufferKind& kind(BufferKindId k) const { return kinds[k]; }
  const Buffer& buffer(BufferId f) const { return buffers[f]; }
  const Segment& segment(SegmentId s) const { return segments[s]; }
  const Segment& segment(const Call& c) const { return segment(c.segment); }
  const Call& call(CallId c) const { return schedule[c]; }
  int64_t bytes_of(BufferId f) const { return kind(buffer(f).kind).bytes; }
  bool operator==(const Program&) const = default;
};

// Returns the index of the parameter of `s` that holds `v`, or kNone if v is in the scratch of `s`.
int parameter_of(const Program& p, const Segment& s, ValueId v);

// Return names for messages: "#14 backward.layer layer=3 mb=1", "layer.saved layer=3 mb=1".
std::string call_name(const Program& p, CallId call);
std::string buffer_name(const Program& p, BufferId buffer);

// Calls of one queue run one after another, so they share their scratch: as many bytes as the
// largest of their segments needs. The regions are in the order of Queue, from
// Program::scratch_offset on, at multiples of kScratchAlignment from there. A call may write the
// first Segment::scratch_bytes of its region; the other bytes may belong to buffers at that time.
constexpr int64_t kScratchAlignment = 256;
// Buffers, and the values in them, begin at multiples of this. The alignment of a target is a
// multiple of it, and divides kScratchAlignment.
constexpr int64_t kByteAlignment = 64;
int64_t scratch_bytes(const Program& p, Queue queue);
int64_t scratch_offset(const Program& p, Queue queue);

}  // namespace tessera

// Coarse ops on values. The meaning and attributes of an op are in ir/ops/<op>.h; its shapes,
// sharding, gradient and cost in ir/ops/<op>.cc.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/enum_array.h"
#include "base/error.h"
#include "ir/op_attributes.h"
#include "ir/value.h"

namespace tessera {

// The FIFO queue that an op or call is issued to.
enum class Queue : uint8_t {
  kCompute,
  kCopyIn,
  kCopyOut,
  kData,             // gathers and reductions over the ranks that share a flat buffer
  kGroups,           // reductions over other groups
  kSendForward,      // to the next stage
  kReceiveForward,   // from the previous stage
  kSendBackward,     // to the previous stage
  kReceiveBackward,  // from the next stage
  // Inner queues are for ops within a call of the compute queue. No call is issued to one.
  kTensor,  // gathers and reductions over tensor-parallel ranks, rotations of keys and values
  kExpert,  // gathers and reductions over the ranks that divide the experts
};
constexpr int kQueues = static_cast<int>(Queue::kExpert) + 1;
constexpr size_t count_of(Queue) { return kQueues; }
constexpr bool is_inner(Queue q) { return q >= Queue::kTensor; }

// The part of the sequences of its operands that an op works on: part `index` of `count` equal
// ones. Together the ops of all parts compute the same values as one op on all sequences.
struct Chunk {
  int32_t index = 0, count = 1;

  bool is_whole() const { return count == 1; }
  // Returns true if parts of the same value have common sequences.
  bool overlaps(const Chunk& o) const {
    return int64_t{index} * o.count < (int64_t{o.index} + 1) * count &&
           int64_t{o.index} * count < (int64_t{index} + 1) * o.count;
  }
  bool operator==(const Chunk&) const = default;
};

struct Op {
  OpAttributes attributes;
  std::vector<ValueId> inputs, outputs;
  ValueId workspace = kNone;      // scratch that the target needs for the op
  ValueId packed = kNone;         // for GEMMs: the packed weight, if the target has a packed form
  Queue queue = Queue::kCompute;  // an inner queue; otherwise the op runs on the queue of the
                                  // segment
  // Indices of the ops of other queues in the segment that this one waits for. All are earlier in
  // the list.
  std::vector<int32_t> after = {};
  Chunk chunk;
  std::string origin;  // "attn.qkv": the role of the op in its block, for messages

  OpKind kind() const { return kind_of(attributes); }
  template <class A>
  bool is() const {
    return kind() == kind_of<A>();
  }
  // Returns nullptr for an op of another kind.
  template <class A>
  const A* if_as() const {
    return std::get_if<A>(&attributes);
  }
  template <class A>
  A* if_as() {
    return std::get_if<A>(&attributes);
  }
  template <class A>
  const A& as() const {
    CHECK(is<A>(), "{} is {}, not {}", origin, name_of(kind()), A::kName);
    return *if_as<A>();
  }
  template <class A>
  A& as() {
    CHECK(is<A>(), "{} is {}, not {}", origin, name_of(kind()), A::kName);
    return *if_as<A>();
  }
  bool operator==(const Op&) const = default;
};

// Returns the queue on which an op of a segment on the queue `home` runs.
constexpr Queue queue_of(const Op& op, Queue home) { return is_inner(op.queue) ? op.queue : home; }

// The optimizer and attributes of a one-pass update op.
struct OnePass {
  OptimizerKind kind = OptimizerKind::kAdamW;
  const WeightUpdate* update = nullptr;  // points into the op
};
// CHECKs that the op is a one-pass update.
OnePass one_pass_of(const Op& op);

// Returns the attributes of the update op of that optimizer.
OpAttributes one_pass_update(OptimizerKind kind, const WeightUpdate& update);

}  // namespace tessera

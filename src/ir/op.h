// Coarse ops on values. What an op is and its attributes: ir/ops/<op>.h. Its shapes, sharding,
// gradient and cost: ir/ops/<op>.cc.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/enum_array.h"
#include "base/error.h"
#include "ir/ops.h"
#include "ir/value.h"

namespace tessera {

// The FIFO queue that an op or call is issued to.
enum class Queue : uint8_t {
  kCompute,
  kCopyIn,
  kCopyOut,
  kData,             // gathers and reductions over the ranks that share a flat frame
  kGroups,           // reductions over other groups
  kSendForward,      // to the next stage
  kReceiveForward,   // from the stage before
  kSendBackward,     // to the stage before
  kReceiveBackward,  // from the next stage
  // Inner queues: of ops within a call of the compute queue. No call is issued to one.
  kTensor,  // gathers and reductions over tensor-parallel ranks
};
constexpr int kQueues = static_cast<int>(Queue::kTensor) + 1;
constexpr size_t count_of(Queue) { return kQueues; }
constexpr bool is_inner(Queue q) { return q >= Queue::kTensor; }

// The part of the sequences of its operands that an op works on: part `index` of `count` equal
// ones. Together the ops of all parts make the same values as one op on all sequences.
struct Chunk {
  int32_t index = 0, count = 1;

  bool is_whole() const { return count == 1; }
  // Whether a part of the same value has sequences of both.
  bool overlaps(const Chunk& o) const {
    return int64_t{index} * o.count < (int64_t{o.index} + 1) * count &&
           int64_t{o.index} * count < (int64_t{index} + 1) * o.count;
  }
  bool operator==(const Chunk&) const = default;
};

struct Op {
  OpAttributes attributes;
  std::vector<ValueId> inputs, outputs;
  ValueId workspace = kNone;  // scratch bytes the target asks for
  ValueId packed = kNone;     // of products: the packed form of the weight, if the target has one
  Queue queue = Queue::kCompute;  // an inner queue, or else that of the segment
  // The ops of other queues of the segment that this one waits for, by their index. All are earlier
  // in the list.
  std::vector<int32_t> after = {};
  Chunk chunk;
  std::string origin;  // "attn.qkv": what the op does in its block, for messages

  OpKind kind() const { return kind_of(attributes); }
  template <class A>
  bool is() const {
    return kind() == kind_of<A>();
  }
  // nullptr for an op of another kind.
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

// The queue that an op runs on in a segment of the queue `home`.
constexpr Queue queue_of(const Op& op, Queue home) { return is_inner(op.queue) ? op.queue : home; }

// One-pass update ops, whichever optimizer they are of.
struct OnePass {
  OptimizerKind kind = OptimizerKind::kAdamW;
  const WeightUpdate* update = nullptr;  // points into the op
};
// CHECKs that the op is one.
OnePass one_pass_of(const Op& op);

// The attributes of the update op of that optimizer.
OpAttributes one_pass_update(OptimizerKind kind, const WeightUpdate& update);

}  // namespace tessera

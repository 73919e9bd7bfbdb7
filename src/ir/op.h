// Coarse ops on values. What an op is and its attributes: ir/ops/<op>.h. Its shapes, sharding,
// gradient and cost: ir/ops/<op>.cc.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

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
};
constexpr int kQueues = 9;

struct Op {
  OpAttributes attributes;
  std::vector<ValueId> inputs, outputs;
  ValueId workspace = kNone;  // scratch bytes the target asks for
  ValueId packed = kNone;     // of products: the packed form of the weight, if the target has one
  Queue queue = Queue::kCompute;
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

}  // namespace tessera

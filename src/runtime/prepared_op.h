// A prepared op: everything is bound except the frame addresses of a call.
#pragma once

#include <vector>

#include "runtime/binding.h"

namespace tessera {

struct PreparedOperand {
  ValueId value = kNone;
  int parameter = kNone;  // kNone: scratch
  Chunk chunk = {};       // of an op on a chunk: the part of the value that it takes
};
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

}  // namespace tessera

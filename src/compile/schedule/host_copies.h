// Host copies of buffers, and the two segments that copy to the host and back.
//   for layer.saved (a, b)  kind layer.saved.host (a.host, b.host), each at the offset of its
//                           original
//                           offload.layer.saved   read layer.saved, write layer.saved.host
//                             a.host = copy (a) · b.host = copy (b)              queue=copy_out
//                           fetch.layer.saved     the reverse                    queue=copy_in
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/program.h"

namespace tessera::compile {

struct HostCopy {
  BufferKindId host = kNone;
  SegmentId out = kNone, in = kNone;
};

// Adds host copies to the program on demand, once per kind. Uses those that earlier passes have
// added.
class HostCopies {
 public:
  explicit HostCopies(Program& p);

  const HostCopy& of(BufferKindId kind);

 private:
  BufferKindId twin(BufferKindId kind, std::vector<Op>& out, std::vector<Op>& in);
  SegmentId segment(Phase phase, BufferKindId subject, std::vector<Op> ops, Queue queue,
                    BufferKindId from, BufferKindId to);

  Program& p_;
  std::map<BufferKindId, HostCopy> copies_;
};

// Returns a call of one of the two segments, for the layer and micro-batch of the buffer `of`.
Call copy_call(SegmentId segment, const Buffer& of, std::vector<BufferId> buffers);

}  // namespace tessera::compile

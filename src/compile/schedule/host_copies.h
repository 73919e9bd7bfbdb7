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
  FrameKindId host = kNone;
  SegmentId out = kNone, in = kNone;
};

// Adds host copies to the program on demand, once per kind. Uses those that earlier passes have
// added.
class HostCopies {
 public:
  explicit HostCopies(Program& p);

  const HostCopy& of(FrameKindId kind);

 private:
  FrameKindId twin(FrameKindId kind, std::vector<Op>& out, std::vector<Op>& in);
  SegmentId segment(Phase phase, FrameKindId subject, std::vector<Op> ops, Queue queue,
                    FrameKindId from, FrameKindId to);

  Program& p_;
  std::map<FrameKindId, HostCopy> copies_;
};

// Returns a call of one of the two segments, for the layer and micro-batch of the buffer `of`.
Call copy_call(SegmentId segment, const Frame& of, std::vector<FrameId> frames);

}  // namespace tessera::compile

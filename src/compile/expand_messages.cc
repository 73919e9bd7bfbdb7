#include <algorithm>

#include "base/error.h"
#include "compile/expander.h"

namespace tessera {

SegmentId Expander::message(const std::string& name, const std::vector<const char*>& kinds,
                            bool sends, Queue queue) {
  const bool ahead = queue == Queue::kSendForward || queue == Queue::kReceiveBackward;
  const std::string peer = ahead ? "next" : "previous";
  std::vector<Op> ops;
  for (const char* wanted : kinds) {
    const auto kind = std::find_if(out_.program.kinds.begin(), out_.program.kinds.end(),
                                   [&](const FrameKind& k) { return k.name == wanted; });
    CHECK(kind != out_.program.kinds.end(), "the graph has no {}", wanted);
    const ValueId v = kind->values.at(0);
    Op op;
    op.kind = sends ? OpKind::kSend : OpKind::kReceive;
    op.origin = name;
    if (sends) {
      op.attributes = {{"to", peer}};
      op.inputs = {v};
    } else {
      const std::string shape = fmt::format("{}", fmt::join(g_[v].shape.dims(), "x"));
      op.attributes = {
          {"from", peer}, {"type", std::string(name_of(g_[v].dtype))}, {"shape", shape}};
      op.outputs = {v};
    }
    ops.push_back(std::move(op));
  }
  return segment(name, std::move(ops), queue);
}

void Expander::message_segments() {
  if (g_.mesh[AxisKind::kPipeline] == 1) return;
  const auto make = [&](Crossing crossing, const std::string& suffix,
                        const std::vector<const char*>& forward,
                        const std::vector<const char*>& backward) {
    Messages& m = out_.messages[static_cast<size_t>(crossing)];
    m.send_forward = message("send_forward" + suffix, forward, true, Queue::kSendForward);
    m.receive_forward = message("receive_forward" + suffix, forward, false, Queue::kReceiveForward);
    if (!trains()) return;
    m.send_backward = message("send_backward" + suffix, backward, true, Queue::kSendBackward);
    m.receive_backward =
        message("receive_backward" + suffix, backward, false, Queue::kReceiveBackward);
  };
  make(Crossing::kHidden, "", {"hidden"}, {"d_hidden"});
  if (g_.memory == kNone) return;
  make(Crossing::kSource, ".source", {"source"}, {"d_source"});
  make(Crossing::kMemory, ".memory", {"hidden", "memory"}, {"d_hidden", "d_memory"});
}

}  // namespace tessera

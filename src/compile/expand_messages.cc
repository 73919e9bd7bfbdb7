#include <algorithm>

#include "base/error.h"
#include "compile/expander.h"
#include "ir/builder.h"

namespace tessera {

ValueId Expander::stream(const std::string& wanted) const {
  const auto& kinds = out_.program.kinds;
  const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                 [&](const FrameKind& k) { return k.name == wanted; });
  CHECK(kind != kinds.end(), "the graph has no {}", wanted);
  return kind->values.at(0);
}

SegmentId Expander::message(const std::string& name, const std::vector<const char*>& kinds,
                            bool sends, Queue queue) {
  const bool ahead = queue == Queue::kSendForward || queue == Queue::kReceiveBackward;
  const std::string peer = ahead ? "next" : "previous";
  std::vector<Op> ops;
  for (const char* wanted : kinds) {
    const ValueId v = stream(wanted);
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

// What all tensor ranks hold is kept in parts, one each (DeepSpeed's pipe_partitioned); else the
// stream's own frame lives on. Nothing is computed from it: the last segment ends its life.
void Expander::kept_segments(Messages& m, const std::string& suffix,
                             const std::vector<const char*>& kinds) {
  constexpr int8_t kTokens = 1;
  const auto tensor = static_cast<size_t>(AxisKind::kTensor);
  std::vector<Op> ops;
  std::vector<Parameter> held;
  for (const char* kind : kinds) {
    ValueId v = stream(kind);
    if (g_.mesh.size[tensor] > 1 && g_[v].sharding.place[tensor] < 0) {
      Sharding part = g_[v].sharding;
      part.place[tensor] = kTokens;
      v = Builder(g_, ops, kPerLayer | kPerMicrobatch, "").convert(v, part);
      frame(std::string(kind) + suffix + ".sent", {v}, kPerLayer | kPerMicrobatch, false);
    }
    held.push_back({g_[v].frame, Access::kRead});
  }
  if (!ops.empty()) m.keep_sent = segment("keep_sent" + suffix, std::move(ops));
  m.release_sent = segment("release_sent" + suffix, {});
  out_.program.segments.back().frames = std::move(held);
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
    if (request_.options.sent == SentKind::kKept) kept_segments(m, suffix, forward);
  };
  make(Crossing::kHidden, "", {"hidden"}, {"d_hidden"});
  if (g_.memory == kNone) return;
  make(Crossing::kSource, ".source", {"source"}, {"d_source"});
  make(Crossing::kMemory, ".memory", {"hidden", "memory"}, {"d_hidden", "d_memory"});
}

}  // namespace tessera

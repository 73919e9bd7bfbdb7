// Segments that send and receive streams between stages.
#include <algorithm>

#include "base/error.h"
#include "compile/expander.h"
#include "ir/builder.h"

namespace tessera {

ValueId Expander::first_value(FrameKindId kind) const {
  return out_.program.kind(kind).values.at(0);
}

SegmentId Expander::message(Phase phase, const std::string& subject,
                            const std::vector<FrameKindId>& kinds, Queue queue) {
  const bool ahead = queue == Queue::kSendForward || queue == Queue::kReceiveBackward;
  const bool sends = queue == Queue::kSendForward || queue == Queue::kSendBackward;
  const AdjacentStage peer = ahead ? AdjacentStage::kNext : AdjacentStage::kPrevious;
  std::vector<Op> ops;
  for (const FrameKindId kind : kinds) {
    const ValueId v = first_value(kind);
    Op op;
    op.origin = segment_name(phase, subject);
    if (sends) {
      op.attributes = Send{peer};
      op.inputs = {v};
    } else {
      op.attributes = Receive{peer, g_[v].dtype, g_[v].shape};
      op.outputs = {v};
    }
    ops.push_back(std::move(op));
  }
  return segment(phase, subject, std::move(ops), queue);
}

// What all tensor ranks hold is kept in parts, one each (DeepSpeed's pipe_partitioned); else the
// stream's own frame lives on. Nothing is computed from it: the last segment ends its life.
void Expander::kept_segments(CrossingMessages& m, const std::string& subject,
                             const std::vector<FrameKindId>& kinds) {
  constexpr int8_t kTokenDim = 1;
  const auto tensor = static_cast<size_t>(AxisKind::kTensor);
  const std::string suffix = subject.empty() ? "" : "." + subject;
  std::vector<Op> ops;
  std::vector<Parameter> held;
  for (const FrameKindId kind : kinds) {
    ValueId v = first_value(kind);
    if (g_.mesh.size[tensor] > 1 && g_[v].sharding.place[tensor] < 0) {
      Sharding part = g_[v].sharding;
      part.place[tensor] = kTokenDim;
      v = Builder(g_, ops, kPerLayer | kPerMicrobatch, "").convert(v, part);
      const std::string name = out_.program.kind(kind).name;
      frame(name + suffix + ".sent", {v}, kPerLayer | kPerMicrobatch, false);
    }
    held.push_back({g_[v].frame, Access::kRead});
  }
  if (!ops.empty()) m.keep_sent = segment(Phase::kKeepSent, subject, std::move(ops));
  m.release_sent = segment(Phase::kReleaseSent, subject, {});
  out_.program.segments.back().frames = std::move(held);
}

void Expander::message_segments() {
  if (g_.mesh[AxisKind::kPipeline] == 1) return;
  using Kinds = std::vector<FrameKindId>;
  const auto make = [&](Crossing crossing, const std::string& subject, const Kinds& forward,
                        const Kinds& backward) {
    CrossingMessages& m = out_.messages[static_cast<size_t>(crossing)];
    m.send_forward = message(Phase::kSendForward, subject, forward, Queue::kSendForward);
    m.receive_forward = message(Phase::kReceiveForward, subject, forward, Queue::kReceiveForward);
    if (!trains()) return;
    m.send_backward = message(Phase::kSendBackward, subject, backward, Queue::kSendBackward);
    m.receive_backward =
        message(Phase::kReceiveBackward, subject, backward, Queue::kReceiveBackward);
    if (request_.options.sent == SentKind::kKept) kept_segments(m, subject, forward);
  };
  const auto hidden = static_cast<size_t>(HiddenStream::kHidden);
  const auto source = static_cast<size_t>(HiddenStream::kSource);
  make(Crossing::kHidden, "", {streams_[hidden]}, {stream_gradients_[hidden]});
  if (g_.memory == kNone) return;
  make(Crossing::kSource, "source", {streams_[source]}, {stream_gradients_[source]});
  make(Crossing::kMemory, "memory", {streams_[hidden], out_.encoder_output},
       {stream_gradients_[hidden], out_.encoder_output_gradient});
}

}  // namespace tessera

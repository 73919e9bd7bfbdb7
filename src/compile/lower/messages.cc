// Segments that send and receive streams between stages.
#include "compile/lower/lowering.h"
#include "ir/builder.h"

namespace tessera {
namespace {

ValueId first_value(const Lowering& low, FrameKindId kind) {
  return low.out.program.kind(kind).values.at(0);
}

SegmentId message(Lowering& low, Phase phase, const std::string& subject,
                  const std::vector<FrameKindId>& kinds, Queue queue) {
  const bool ahead = queue == Queue::kSendForward || queue == Queue::kReceiveBackward;
  const bool sends = queue == Queue::kSendForward || queue == Queue::kSendBackward;
  const AdjacentStage peer = ahead ? AdjacentStage::kNext : AdjacentStage::kPrevious;
  std::vector<Op> ops;
  for (const FrameKindId kind : kinds) {
    const ValueId v = first_value(low, kind);
    Op op;
    op.origin = segment_name(phase, subject);
    if (sends) {
      op.attributes = Send{peer};
      op.inputs = {v};
    } else {
      op.attributes = Receive{peer, low.graph[v].dtype, low.graph[v].shape};
      op.outputs = {v};
    }
    ops.push_back(std::move(op));
  }
  return segment(low, phase, subject, std::move(ops), queue);
}

// What all tensor ranks hold is kept in parts, one each (DeepSpeed's pipe_partitioned); else the
// stream's own frame lives on. Nothing is computed from it: the last segment ends its life.
void kept_segments(Lowering& low, CrossingMessages& m, const std::string& subject,
                   const std::vector<FrameKindId>& kinds) {
  constexpr int8_t kTokenDim = 1;
  const auto tensor = static_cast<size_t>(AxisKind::kTensor);
  const std::string suffix = subject.empty() ? "" : "." + subject;
  std::vector<Op> ops;
  std::vector<Parameter> held;
  for (const FrameKindId kind : kinds) {
    ValueId v = first_value(low, kind);
    if (low.graph.mesh.size[tensor] > 1 && low.graph[v].sharding.place[tensor] < 0) {
      Sharding part = low.graph[v].sharding;
      part.place[tensor] = kTokenDim;
      v = Builder(low.graph, ops, kPerLayer | kPerMicrobatch, "").convert(v, part);
      const std::string name = low.out.program.kind(kind).name;
      frame(low, name + suffix + ".sent", {v}, kPerLayer | kPerMicrobatch, false);
    }
    held.push_back({low.graph[v].frame, Access::kRead});
  }
  if (!ops.empty()) m.keep_sent = segment(low, Phase::kKeepSent, subject, std::move(ops));
  m.release_sent = segment(low, Phase::kReleaseSent, subject, {});
  low.out.program.segments.back().frames = std::move(held);
}

}  // namespace

void message_segments(Lowering& low) {
  if (low.graph.mesh[AxisKind::kPipeline] == 1) return;
  using Kinds = std::vector<FrameKindId>;
  const auto make = [&](Crossing crossing, const std::string& subject, const Kinds& forward,
                        const Kinds& backward) {
    CrossingMessages& m = low.out.messages[static_cast<size_t>(crossing)];
    m.send_forward = message(low, Phase::kSendForward, subject, forward, Queue::kSendForward);
    m.receive_forward =
        message(low, Phase::kReceiveForward, subject, forward, Queue::kReceiveForward);
    if (!low.trains()) return;
    m.send_backward = message(low, Phase::kSendBackward, subject, backward, Queue::kSendBackward);
    m.receive_backward =
        message(low, Phase::kReceiveBackward, subject, backward, Queue::kReceiveBackward);
    if (low.context.request.options.sent == SentKind::kKept)
      kept_segments(low, m, subject, forward);
  };
  const auto hidden = static_cast<size_t>(HiddenStream::kHidden);
  const auto source = static_cast<size_t>(HiddenStream::kSource);
  make(Crossing::kHidden, "", {low.streams[hidden]}, {low.stream_gradients[hidden]});
  if (low.graph.memory == kNone) return;
  make(Crossing::kSource, "source", {low.streams[source]}, {low.stream_gradients[source]});
  make(Crossing::kMemory, "memory", {low.streams[hidden], low.out.encoder_output},
       {low.stream_gradients[hidden], low.out.encoder_output_gradient});
}

}  // namespace tessera

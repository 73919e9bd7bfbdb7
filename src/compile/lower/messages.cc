// Segments that send and receive streams between stages. What crosses each cut is derived from what
// blocks read and write.
#include <bit>
#include <set>

#include "base/error.h"
#include "compile/graph/rewrite.h"
#include "compile/lower/lowering.h"
#include "ir/builder.h"

namespace tessera::compile {
namespace {

ValueId first_value(const Lowering& low, BufferKindId kind) {
  return low.out.program.kind(kind).values.at(0);
}

SegmentId message(Lowering& low, Phase phase, const std::string& subject,
                  const std::vector<BufferKindId>& kinds, Queue queue) {
  const bool ahead = queue == Queue::kSendForward || queue == Queue::kReceiveBackward;
  const bool sends = queue == Queue::kSendForward || queue == Queue::kSendBackward;
  const AdjacentStage peer = ahead ? AdjacentStage::kNext : AdjacentStage::kPrevious;
  std::vector<Op> ops;
  for (const BufferKindId kind : kinds) {
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

// A tensor that is replicated over tensor ranks is stored as one shard per rank (DeepSpeed's
// pipe_partitioned); otherwise its buffer is kept. No op reads it: the last segment ends its
// lifetime.
void kept_segments(Lowering& low, BoundarySegments& m, const std::string& subject,
                   const std::vector<BufferKindId>& kinds) {
  constexpr int8_t kTokenDim = 1;
  const std::string suffix = subject.empty() ? "" : "." + subject;
  std::vector<Op> ops;
  std::vector<Parameter> held;
  for (const BufferKindId kind : kinds) {
    ValueId v = first_value(low, kind);
    const Mesh& mesh = low.graph.mesh;
    // A part of a sequence (kContext) can only be divided evenly.
    const bool even = mesh[AxisKind::kContext] == 1 ||
                      low.graph[v].local()[kTokenDim] % mesh[AxisKind::kTensor] == 0;
    if (mesh[AxisKind::kTensor] > 1 && low.graph[v].sharding.place[AxisKind::kTensor] < 0 && even) {
      Sharding part = low.graph[v].sharding;
      part.place[AxisKind::kTensor] = kTokenDim;
      v = Builder(low.graph, ops, kPerLayer | kPerMicrobatch, "").convert(v, part);
      const std::string name = low.out.program.kind(kind).name;
      buffer(low, name + suffix + ".sent", {v}, kPerLayer | kPerMicrobatch, false);
    }
    held.push_back({low.graph[v].buffer, Access::kRead});
  }
  if (!ops.empty()) m.keep_sent = segment(low, Phase::kKeepSent, subject, std::move(ops));
  m.release_sent = segment(low, Phase::kReleaseSent, subject, {});
  low.out.program.segments.back().buffers = std::move(held);
}

// Tensors that pass from one block to the next, as bits of a set.
enum Carried : unsigned { kHiddenStates = 1, kEncoderStates = 2, kEncoderOutput = 4 };
constexpr unsigned kStreamsCarried = kHiddenStates | kEncoderStates;

unsigned carried(HiddenStream s) {
  return s == HiddenStream::kHidden ? kHiddenStates : kEncoderStates;
}

struct Uses {
  unsigned reads = 0, writes = 0;
};

Uses uses_of(const Graph& g, const Block& b) {
  Uses u;
  if (b.input != kNone) u.reads |= carried(b.from);
  if (b.output != kNone) u.writes |= carried(b.to);
  if (g.encoder_output == kNone) return u;
  if (writer(b.forward, g.encoder_output) >= 0)
    u.writes |= kEncoderOutput;
  else if (readers(b.forward, g.encoder_output) > 0)
    u.reads |= kEncoderOutput;
  return u;
}

struct BoundaryTensor {
  unsigned what = 0;     // bits of Carried
  int64_t position = 0;  // on the stream that crosses
};

// Returns, for each boundary between blocks, the tensors written before and read after it. Adds all
// these sets to `kinds`, and the set of a boundary between two layers of each stack even if it has
// only one: so the compiled segments do not depend on the number of layers.
std::vector<BoundaryTensor> crossings(const Graph& g, std::set<unsigned>& kinds) {
  const std::vector<ChunkBlock> order = model_order(g.blocks);
  std::vector<unsigned> read_from(order.size() + 1, 0);  // by this entry or a later one
  for (size_t i = order.size(); i-- > 0;)
    read_from[i] = read_from[i + 1] | uses_of(g, g.blocks[order[i].block]).reads;
  std::vector<BoundaryTensor> cuts;
  EnumArray<HiddenStream, int64_t> positions;
  unsigned written = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const Block& b = g.blocks[order[i].block];
    if (b.input != kNone && order[i].before == std::ssize(cuts)) {
      const unsigned what = written & read_from[i], streams = what & kStreamsCarried;
      CHECK(std::has_single_bit(streams), "{} streams cross before layer {}",
            std::popcount(streams), cuts.size());
      const bool hidden = streams == kHiddenStates;
      cuts.push_back({what, positions[hidden ? HiddenStream::kHidden : HiddenStream::kSource]});
      kinds.insert(what);
    }
    const Uses uses = uses_of(g, b);
    written |= uses.writes;
    if (b.is_stack()) kinds.insert(written & (uses.reads | read_from[i + 1]));
    if (b.output != kNone) positions[b.to] = order[i].at.out;
  }
  return cuts;
}

BoundarySegments crossing_messages(Lowering& low, unsigned what) {
  using enum HiddenStream;
  std::vector<BufferKindId> forward, backward;
  const auto add = [&](Carried one, BufferKindId kind, BufferKindId gradient) {
    if (!(what & one)) return;
    forward.push_back(kind);
    backward.push_back(gradient);
  };
  add(kHiddenStates, low.streams[kHidden], low.stream_gradients[kHidden]);
  add(kEncoderStates, low.streams[kSource], low.stream_gradients[kSource]);
  add(kEncoderOutput, low.out.encoder_output, low.out.encoder_output_gradient);
  const std::string subject = what & kEncoderOutput   ? "memory"
                              : what & kEncoderStates ? "source"
                                                      : "";
  BoundarySegments m;
  m.send_forward = message(low, Phase::kSendForward, subject, forward, Queue::kSendForward);
  m.receive_forward =
      message(low, Phase::kReceiveForward, subject, forward, Queue::kReceiveForward);
  if (!low.trains()) return m;
  m.send_backward = message(low, Phase::kSendBackward, subject, backward, Queue::kSendBackward);
  m.receive_backward =
      message(low, Phase::kReceiveBackward, subject, backward, Queue::kReceiveBackward);
  if (!low.context.request.options.deallocate_pipeline_outputs)
    kept_segments(low, m, subject, forward);
  return m;
}

}  // namespace

void message_segments(Lowering& low) {
  if (low.graph.mesh[AxisKind::kPipeline] == 1) return;
  std::set<unsigned> kinds;
  const std::vector<BoundaryTensor> cuts = crossings(low.graph, kinds);
  std::map<unsigned, size_t> made;
  for (const unsigned what : kinds) {
    made[what] = low.out.messages.size();
    low.out.messages.push_back(crossing_messages(low, what));
  }
  for (const BoundaryTensor& c : cuts) low.out.cuts.push_back({made.at(c.what), c.position});
}

}  // namespace tessera::compile

// The buffer kinds of a program: batches, hidden states between blocks, values saved for the
// backward.
#include <algorithm>

#include "compile/graph/rewrite.h"
#include "compile/lower/lowering.h"
#include "ir/names.h"

namespace tessera::compile {
namespace {

int64_t align(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Adds a value once: several ops may write the chunks of one value.
void add_once(std::vector<ValueId>& values, ValueId v) {
  if (std::find(values.begin(), values.end(), v) == values.end()) values.push_back(v);
}

}  // namespace

// Creates a buffer kind in which the values follow one another. Each begins at a multiple of the
// alignment and of 64 elements, so that ZeRO can divide flat buffers into whole units.
BufferKindId buffer(Lowering& low, const std::string& name, const std::vector<ValueId>& values,
                    uint8_t per, bool state) {
  BufferKind kind;
  kind.name = name;
  kind.values = values;
  kind.indexed_by = per;
  kind.state = state;
  const auto id = low.out.program.kinds.next_id();
  for (const ValueId v : values) {
    low.graph[v].buffer = id;
    low.graph[v].offset = kind.bytes;
    const int64_t unit =
        std::max(low.context.target.alignment, kUnitElements * size_of(low.graph[v].dtype));
    kind.bytes = align(kind.bytes + low.graph[v].bytes(), unit);
  }
  low.out.program.kinds.push_back(std::move(kind));
  return id;
}

// Creates the buffer kinds of the inputs. All inputs per micro-batch are in one kind. Values that
// exist once per step or per layer have kinds of their own.
void batch_buffers(Lowering& low) {
  std::vector<ValueId> batch;
  for (const ValueId id : low.graph.values.ids()) {
    const Value& v = low.graph.values[id];
    if (v.role == Role::kStep || v.role == Role::kReport || v.role == Role::kLogits)
      buffer(low, v.name, {id}, kOne, true);
    if (v.role == Role::kCache) buffer(low, v.name, {id}, v.indexed_by, true);
    if (is_batch(v.role)) batch.push_back(id);
  }
  buffer(low, "batch", batch, kPerMicrobatch, true);
}

// The largest scores of the attentions of a block, from the first micro-batch to the update.
void score_buffers(Lowering& low) {
  for (const BlockId id : low.graph.blocks.ids()) {
    const Block& b = low.graph.blocks[id];
    std::vector<ValueId> scores;
    for (const std::vector<Op>* const ops : {&b.forward, &b.backward})
      for (const Op& op : *ops)
        if (op.is<MaxScores>()) add_once(scores, op.outputs[0]);
    if (!scores.empty())
      low.out.segments[id].scores =
          buffer(low, b.name + ".max_scores", scores, low.graph[scores[0]].indexed_by, false);
  }
}

// All blocks of a hidden stream read one buffer kind and write another, whose `input` is the first:
// what a layer writes at position n + 1 is the buffer that the next layer reads.
void stream_buffers(Lowering& low) {
  EnumArray<HiddenStream, BufferKindId> outputs, output_gradients;
  // The values that the blocks of a stream read share their bytes, and so do those that they write.
  const auto add = [&](BufferKindId& kind, const std::string& name, ValueId v) {
    if (v == kNone) return;
    if (!kind) kind = buffer(low, name, {v}, kPerLayer | kPerMicrobatch, false);
    low.graph[v].buffer = kind;
    low.graph[v].offset = 0;
    auto& members = low.out.program.kinds[kind].values;
    if (std::find(members.begin(), members.end(), v) == members.end()) members.push_back(v);
  };
  const auto name = [](HiddenStream s) { return std::string(name_of(s)); };
  const auto gradient = [&](HiddenStream s) { return "d_" + name(s); };
  for (const Block& b : low.graph.blocks) add(low.streams[b.from], name(b.from), b.input);
  for (const Block& b : low.graph.blocks) add(outputs[b.to], name(b.to) + kOutputSuffix, b.output);
  if (low.trains()) {
    for (const Block& b : low.graph.blocks)
      add(low.stream_gradients[b.from], gradient(b.from), b.input_gradient);
    for (const Block& b : low.graph.blocks)
      add(output_gradients[b.to], gradient(b.to) + kOutputSuffix, b.output_gradient);
  }
  for (const HiddenStream s : Enumerators<HiddenStream>()) {
    if (outputs[s]) low.out.program.kinds[outputs[s]].input = low.streams[s];
    if (output_gradients[s])
      low.out.program.kinds[output_gradients[s]].input = low.stream_gradients[s];
  }
  if (low.graph.encoder_output == kNone) return;
  low.out.encoder_output = buffer(low, "memory", {low.graph.encoder_output}, kPerMicrobatch, false);
  if (low.trains())
    low.out.encoder_output_gradient =
        buffer(low, "d_memory", {low.graph.encoder_output_gradient}, kPerMicrobatch, false);
}

// Creates the buffer kinds of values that a forward op writes and the backward reads. A block that
// ends in a loss has its backward in the same segment and saves nothing.
void saved_buffers(Lowering& low) {
  if (!low.trains()) return;
  for (const BlockId id : low.graph.blocks.ids()) {
    const Block& b = low.graph.blocks[id];
    if (b.loss) continue;
    std::vector<ValueId> saved;
    for (const Op& op : b.forward)
      for (const ValueId v : op.outputs)
        if (low.graph[v].buffer == kNone && readers(b.backward, v) + readers(b.weights, v) > 0)
          add_once(saved, v);
    if (!saved.empty())
      low.out.segments[id].saved =
          buffer(low, b.name + ".saved", saved, low.graph[saved[0]].indexed_by, false);
  }
}

// Creates the buffer kinds of values that the input-gradient part of a backward leaves to the
// weight-gradient part (zero_bubble).
void pending_buffers(Lowering& low) {
  for (const BlockId id : low.graph.blocks.ids()) {
    const Block& b = low.graph.blocks[id];
    std::vector<ValueId> pending;
    for (const Op& op : b.backward)
      for (const ValueId v : op.outputs)
        if (low.graph[v].buffer == kNone && readers(b.weights, v) > 0) add_once(pending, v);
    if (!pending.empty())
      low.out.segments[id].pending =
          buffer(low, b.name + ".pending", pending, low.graph[b.input].indexed_by, false);
  }
}

}  // namespace tessera::compile

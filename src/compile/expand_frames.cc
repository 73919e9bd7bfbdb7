// The kinds of frames of a program: batch, streams between blocks, saved values.
#include <algorithm>
#include <map>

#include "compile/expander.h"
#include "compile/rewrite.h"
#include "ir/names.h"

namespace tessera {
namespace {

int64_t align(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

FrameKindId Expander::frame(const std::string& name, const std::vector<ValueId>& values,
                            uint8_t per, bool state) {
  FrameKind kind;
  kind.name = name;
  kind.values = values;
  kind.per = per;
  kind.state = state;
  const auto id = out_.program.kinds.next_id();
  for (const ValueId v : values) {
    g_[v].frame = id;
    g_[v].offset = kind.bytes;
    const int64_t unit = std::max(target_.alignment, kUnitElements * size_of(g_[v].dtype));
    kind.bytes = align(kind.bytes + g_[v].bytes(), unit);
  }
  out_.program.kinds.push_back(std::move(kind));
  return id;
}

void Expander::batch_frames() {
  std::vector<ValueId> batch;
  for (const ValueId id : g_.values.ids()) {
    const Value& v = g_.values[id];
    if (v.role == Role::kStep || v.role == Role::kReport || v.role == Role::kLogits)
      frame(v.name, {id}, kOne, true);
    if (v.role == Role::kCache) frame(v.name, {id}, v.per, true);
    if (is_batch(v.role)) batch.push_back(id);
  }
  frame("batch", batch, kPerMicrobatch, true);
}

void Expander::stream_frames() {
  std::array<FrameKindId, kHiddenStreams> outputs, output_gradients;
  // The values of a stream that blocks read share their bytes, and those that blocks write.
  const auto add = [&](FrameKindId& kind, const std::string& name, ValueId v) {
    if (v == kNone) return;
    if (!kind) kind = frame(name, {v}, kPerLayer | kPerMicrobatch, false);
    g_[v].frame = kind;
    g_[v].offset = 0;
    auto& members = out_.program.kinds[kind].values;
    if (std::find(members.begin(), members.end(), v) == members.end()) members.push_back(v);
  };
  const auto at = [](HiddenStream s) { return static_cast<size_t>(s); };
  const auto name = [](HiddenStream s) { return std::string(name_of(s)); };
  const auto gradient = [&](HiddenStream s) { return "d_" + name(s); };
  for (const Block& b : g_.blocks) add(streams_[at(b.from)], name(b.from), b.input);
  for (const Block& b : g_.blocks) add(outputs[at(b.to)], name(b.to) + kOutputSuffix, b.output);
  if (trains()) {
    for (const Block& b : g_.blocks)
      add(stream_gradients_[at(b.from)], gradient(b.from), b.input_gradient);
    for (const Block& b : g_.blocks)
      add(output_gradients[at(b.to)], gradient(b.to) + kOutputSuffix, b.output_gradient);
  }
  for (size_t s = 0; s < kHiddenStreams; ++s) {
    if (outputs[s]) out_.program.kinds[outputs[s]].input = streams_[s];
    if (output_gradients[s]) out_.program.kinds[output_gradients[s]].input = stream_gradients_[s];
  }
  if (g_.memory == kNone) return;
  out_.encoder_output = frame("memory", {g_.memory}, kPerMicrobatch, false);
  if (trains())
    out_.encoder_output_gradient = frame("d_memory", {g_.memory_gradient}, kPerMicrobatch, false);
}

void Expander::saved_frames() {
  if (!trains()) return;
  for (const BlockId id : g_.blocks.ids()) {
    const Block& b = g_.blocks[id];
    if (b.loss) continue;
    std::vector<ValueId> saved;
    for (const Op& op : b.forward)
      for (const ValueId v : op.outputs)
        if (g_[v].frame == kNone && readers(b.backward, v) + readers(b.weights, v) > 0)
          saved.push_back(v);
    if (!saved.empty())
      out_.segments[id].saved = frame(b.name + ".saved", saved, g_[saved[0]].per, false);
  }
}

// What the part of the backward for inputs leaves to the part for weights: zero_bubble.
void Expander::pending_frames() {
  for (const BlockId id : g_.blocks.ids()) {
    const Block& b = g_.blocks[id];
    std::vector<ValueId> pending;
    for (const Op& op : b.backward)
      for (const ValueId v : op.outputs)
        if (g_[v].frame == kNone && readers(b.weights, v) > 0) pending.push_back(v);
    if (!pending.empty())
      out_.segments[id].pending = frame(b.name + ".pending", pending, g_[b.input].per, false);
  }
}

}  // namespace tessera

#include <algorithm>
#include <map>

#include "compile/expander.h"
#include "compile/rewrite.h"

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
    if (v.role == Role::kStep || v.role == Role::kReport) frame(v.name, {id}, kOne, true);
    if (v.role == Role::kCache) frame(v.name, {id}, v.per, true);
    if (v.role == Role::kBatch) batch.push_back(id);
  }
  frame("batch", batch, kPerMicrobatch, true);
}

void Expander::stream_frames() {
  std::map<std::string, FrameKindId> known;
  const auto add = [&](const std::string& name, ValueId v) {
    if (v == kNone) return;
    const auto found = known.find(name);
    const FrameKindId id =
        found != known.end() ? found->second : frame(name, {v}, kPerLayer | kPerMicrobatch, false);
    known[name] = id;
    g_[v].frame = id;
    g_[v].offset = 0;
    auto& members = out_.program.kinds[id].values;
    if (std::find(members.begin(), members.end(), v) == members.end()) members.push_back(v);
  };
  for (const Block& b : g_.blocks) add(b.from, b.input);
  for (const Block& b : g_.blocks) add(b.to + "'", b.output);
  if (trains())
    for (const Block& b : g_.blocks) add("d_" + b.from, b.input_gradient);
  if (trains())
    for (const Block& b : g_.blocks) add("d_" + b.to + "'", b.output_gradient);
  if (g_.memory == kNone) return;
  frame("memory", {g_.memory}, kPerMicrobatch, false);
  if (trains()) frame("d_memory", {g_.memory_gradient}, kPerMicrobatch, false);
}

void Expander::saved_frames() {
  if (!trains()) return;
  for (const Block& b : g_.blocks) {
    if (b.loss) continue;
    std::vector<ValueId> saved;
    for (const Op& op : b.forward)
      for (const ValueId v : op.outputs)
        if (g_[v].frame == kNone && readers(b.backward, v) + readers(b.weights, v) > 0)
          saved.push_back(v);
    if (!saved.empty()) frame(b.name + ".saved", saved, g_[saved[0]].per, false);
  }
}

// What the part of the backward for inputs leaves to the part for weights: zero_bubble.
void Expander::pending_frames() {
  for (const Block& b : g_.blocks) {
    std::vector<ValueId> pending;
    for (const Op& op : b.backward)
      for (const ValueId v : op.outputs)
        if (g_[v].frame == kNone && readers(b.weights, v) > 0) pending.push_back(v);
    if (!pending.empty()) frame(b.name + ".pending", pending, g_[b.input].per, false);
  }
}

}  // namespace tessera

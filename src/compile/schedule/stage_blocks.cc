// The blocks and layers of one stage. Layers are numbered over all stacks; with S stages, stage s
// has chunks s, s + S, s + 2 S, …, and a chunk has consecutive layers.
#include "compile/schedule/stage_blocks.h"

#include <algorithm>
#include <map>

namespace tessera::compile {

StageBlocks::StageBlocks(const IdVector<BlockId, Block>& blocks, const StageLayers& share,
                         bool reuse_encoder_output)
    : blocks_(blocks),
      share_(share),
      reuse_encoder_output_(reuse_encoder_output),
      chunks_(share.chunks(blocks)),
      first_{0},
      holds_(blocks.size(), false) {
  for (const int64_t n : share_.layers) first_.push_back(first_.back() + n);
  for (int64_t c = share_.stage; c < std::ssize(chunks_); c += share_.pipeline.stages)
    for (const ChunkBlock& v : chunks_[c]) holds_[v.block] = true;
}

bool StageBlocks::holds(const WeightGroup& group) const {
  return std::any_of(group.blocks.begin(), group.blocks.end(), [&](BlockId b) { return holds(b); });
}

std::vector<int64_t> StageBlocks::layers() const {
  std::vector<int64_t> own;
  for (int64_t c = share_.stage; c < share_.pipeline.chunks(); c += share_.pipeline.stages)
    for (int64_t l = first_layer(c); l < end_layer(c); ++l) own.push_back(l);
  return own;
}

std::vector<int64_t> StageBlocks::layers(BlockId block) const {
  std::vector<int64_t> own;
  for (int64_t c = share_.stage; c < share_.pipeline.chunks(); c += share_.pipeline.stages)
    for (const ChunkBlock& v : chunks_[c])
      if (v.block == block && v.layer != kNone) own.push_back(v.layer);
  return own;
}

std::vector<ChunkBlock> StageBlocks::visits(int64_t chunk) const {
  std::vector<ChunkBlock> visits = chunks_[chunk];
  std::erase_if(visits, [&](const ChunkBlock& v) { return is_past(v.block); });
  return visits;
}

// ---- Gives state buffers their fixed offsets, one after another from 0: weights and optimizer
// state first, then logits, then batches. Programs of one run share this state, so what they have
// in common must have the same offsets; logits and batches, which differ, come last.

namespace {

int64_t align(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

class StateBuffers {
 public:
  StateBuffers(LoweredGraph& e, const StageBlocks& own, int64_t alignment, CallList& calls)
      : e_(e), p_(e.program), own_(own), alignment_(alignment), calls_(calls) {
    for (const WeightGroup& g : e.groups)
      for (const BufferKindId k : g.state) owner_[k] = &g;
  }

  // Adds all kinds except batches: with `logits` only those of logits, otherwise only the others.
  void add_kinds(bool logits) {
    for (const BufferKindId id : p_.kinds.ids()) {
      if (!p_.kinds[id].state || is_batch(role(id)) || (role(id) == Role::kLogits) != logits)
        continue;
      if (!owner_.contains(id))
        add_layers(id, layers_using(id));
      else if (own_.holds(*owner_.at(id)))
        add_layers(id, own_.layers(owner_.at(id)->blocks.at(0)));
    }
  }

  void add_batches(int64_t microbatches) {
    for (const BufferKindId id : p_.kinds.ids())
      for (int64_t m = 0; is_batch(role(id)) && m < microbatches; ++m) add(id, kNone, m);
  }

 private:
  // Returns the role of the kind's first value; all values of a kind agree in the aspects used
  // here.
  Role role(BufferKindId kind) const {
    const std::vector<ValueId>& values = p_.kind(kind).values;
    return values.empty() ? Role::kScratch : p_[values[0]].role;
  }

  void add(BufferKindId kind, int64_t layer, int64_t microbatch) {
    const BufferId f = calls_.buffer(kind, layer, microbatch);
    if (p_.kind(kind).host) return;  // assign_buffers() gives it its offset
    p_.buffers[f].offset = p_.state_bytes;
    p_.state_bytes = align(p_.state_bytes + p_.kind(kind).bytes, alignment_);
  }

  void add_layers(BufferKindId kind, const std::vector<int64_t>& layers) {
    if (!(p_.kind(kind).indexed_by & kPerLayer)) return add(kind, kNone, kNone);
    for (const int64_t l : layers) add(kind, l, kNone);
  }

  // Returns the layers of the stack whose forward reads or writes the kind; all layers if none
  // does.
  std::vector<int64_t> layers_using(BufferKindId kind) const {
    const auto is_in = [&](ValueId v) { return p_[v].buffer == kind; };
    for (const BlockId b : e_.blocks.ids())
      for (const Op& op : e_.blocks[b].forward)
        if (std::any_of(op.inputs.begin(), op.inputs.end(), is_in) ||
            std::any_of(op.outputs.begin(), op.outputs.end(), is_in))
          return own_.layers(b);
    return own_.layers();
  }

  const LoweredGraph& e_;
  Program& p_;
  const StageBlocks& own_;
  int64_t alignment_;
  CallList& calls_;
  std::map<BufferKindId, const WeightGroup*> owner_;
};

}  // namespace

void add_state(LoweredGraph& lowered, const StageBlocks& own, int64_t microbatches,
               int64_t alignment, CallList& calls) {
  StateBuffers buffers(lowered, own, alignment, calls);
  buffers.add_kinds(false);
  buffers.add_kinds(true);
  buffers.add_batches(microbatches);
}

}  // namespace tessera::compile

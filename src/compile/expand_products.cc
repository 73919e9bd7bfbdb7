// Matrix products: packed weights and the workspaces that the target asks for.
#include "compile/expander.h"

namespace tessera {
namespace {

Pack pack_for(const Op& product, int64_t rows, int64_t bytes) {
  if (const Matmul* const forward = product.if_as<Matmul>())
    return {*forward, PackedProduct::kMatmul, rows, bytes};
  const MatmulGradInput& a = product.as<MatmulGradInput>();
  return {{.contract = a.contract, .scale = a.scale, .fp8 = a.fp8},
          PackedProduct::kMatmulGradInput,
          rows,
          bytes};
}

}  // namespace

void Expander::pack_weight(Op& op, BlockId block) {
  if (!op.is<Matmul>() && !op.is<MatmulGradInput>()) return;
  const ValueId w = op.inputs[1];
  // What is gathered for one use is not worth packing.
  const bool packs = g_[w].role == Role::kWeight && !divides(3);
  const int64_t bytes = packs ? target_.packed_bytes(op, local_) : 0;
  if (bytes == 0) return;
  const auto key = std::pair(w, op.kind());
  if (!packed_.contains(key)) {
    Value v;
    v.name = g_[w].name + (op.is<Matmul>() ? ".packed" : ".packed_for_gradient");
    v.dtype = DType::kU8;
    v.shape = {bytes};
    v.role = Role::kPacked;
    v.per = g_[w].per;
    packed_[key] = g_.values.push_back(std::move(v));
    packs_[block].emplace_back(op, packed_[key]);
  }
  op.packed = packed_[key];
}

// Workspaces and packed weights, as the target's library wants them.
void Expander::ask_target(std::vector<Op>& ops, BlockId block) {
  local_ = local_values(g_.values);
  for (Op& op : ops) {
    pack_weight(op, block);
    const int64_t bytes = target_.workspace_bytes(op, local_);
    if (bytes == 0) continue;
    Value v;
    v.name = op.origin + ".workspace";
    v.dtype = DType::kU8;
    v.shape = {bytes};
    v.role = Role::kScratch;
    op.workspace = g_.values.push_back(std::move(v));
  }
}

// Before any segment is laid out: what the target's library wants for the ops, and a frame for the
// packed weights of each block.
void Expander::prepare_products() {
  for (const BlockId id : g_.blocks.ids()) {
    Block& b = g_.blocks[id];
    if (!(b.loss && trains())) ask_target(b.forward, id);
    if (trains()) ask_target(b.backward, id);
    if (trains()) ask_target(b.weights, id);
    std::vector<ValueId> packed;
    for (const auto& [op, value] : packs_[id]) packed.push_back(value);
    if (!packed.empty()) frame(b.name + ".packed", packed, g_[packed[0]].per, false);
  }
}

void Expander::pack_segments() {
  for (const BlockId b : g_.blocks.ids()) {
    std::vector<Op> ops;
    for (const auto& [product, value] : packs_[b]) {
      Op pack;
      pack.origin = product.origin;
      pack.attributes =
          pack_for(product, g_[product.inputs[0]].local().elements(), g_[value].shape[0]);
      pack.inputs = {product.inputs[1]};
      pack.outputs = {value};
      ops.push_back(std::move(pack));
    }
    if (!ops.empty()) out_.segments[b].pack = segment(Phase::kPack, g_.blocks[b].name, ops);
  }
}

}  // namespace tessera

// GEMMs: packed weights and the workspaces that the target needs.
#include "compile/lower/lowering.h"

namespace tessera::compile {
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

// Copies the operands of the op to low.local. All values would be too many: a search over layouts
// compiles hundreds of models, and each asks for dozens of lists of ops.
void update_local(Lowering& low, const Op& op) {
  low.local.resize(low.graph.values.size());
  for (const auto* operands : {&op.inputs, &op.outputs})
    for (const ValueId v : *operands)
      if (v) {
        low.local[v] = low.graph[v];
        low.local[v].shape = Shape(low.graph[v].local());
      }
}

void pack_weight(Lowering& low, Op& op, BlockId block) {
  if (!op.is<Matmul>() && !op.is<MatmulGradInput>()) return;
  const ValueId w = op.inputs[1];
  // Weights that are gathered for a single use are not worth packing.
  const bool packs = low.graph[w].role == Role::kWeight && !low.context.zero.divides_weights();
  const int64_t bytes = packs ? low.context.target.packed_bytes(op, low.local) : 0;
  if (bytes == 0) return;
  const auto key = std::pair(w, op.kind());
  if (!low.packed.contains(key)) {
    Value v;
    v.name = low.graph[w].name + (op.is<Matmul>() ? ".packed" : ".packed_for_gradient");
    v.dtype = DType::kU8;
    v.shape = {bytes};
    v.role = Role::kPacked;
    v.indexed_by = low.graph[w].indexed_by;
    low.packed[key] = low.graph.values.push_back(std::move(v));
    low.packs[block].emplace_back(op, low.packed[key]);
  }
  op.packed = low.packed[key];
}

}  // namespace

// Adds the workspaces and packed weights that the target's library needs.
void ask_target(Lowering& low, std::vector<Op>& ops, BlockId block) {
  for (Op& op : ops) {
    update_local(low, op);
    pack_weight(low, op, block);
    const int64_t bytes = low.context.target.workspace_bytes(op, low.local);
    if (bytes == 0) continue;
    Value v;
    v.name = op.origin + ".workspace";
    v.dtype = DType::kU8;
    v.shape = {bytes};
    v.role = Role::kScratch;
    op.workspace = low.graph.values.push_back(std::move(v));
  }
}

// Runs before any segment is laid out: adds what the target's library needs for the ops, and a
// buffer kind for the packed weights of each block.
void prepare_products(Lowering& low) {
  for (const BlockId id : low.graph.blocks.ids()) {
    Block& b = low.graph.blocks[id];
    if (!(b.loss && low.trains())) ask_target(low, b.forward, id);
    if (low.trains()) ask_target(low, b.backward, id);
    if (low.trains()) ask_target(low, b.weights, id);
    std::vector<ValueId> packed;
    for (const auto& [op, value] : low.packs[id]) packed.push_back(value);
    if (!packed.empty())
      buffer(low, b.name + ".packed", packed, low.graph[packed[0]].indexed_by, false);
  }
}

void pack_segments(Lowering& low) {
  for (const BlockId b : low.graph.blocks.ids()) {
    std::vector<Op> ops;
    for (const auto& [product, value] : low.packs[b]) {
      Op pack;
      pack.origin = product.origin;
      const int64_t rows = low.graph[product.inputs[0]].local().elements() / product.chunk.count;
      pack.attributes = pack_for(product, rows, low.graph[value].shape[0]);
      pack.inputs = {product.inputs[1]};
      pack.outputs = {value};
      ops.push_back(std::move(pack));
    }
    if (!ops.empty())
      low.out.segments[b].pack = segment(low, Phase::kPack, low.graph.blocks[b].name, ops);
  }
}

}  // namespace tessera::compile

// Weights in 4 bits (QLoRA, Dettmers et al. 2023). The pass runs when everything else about the
// step is decided, so that no other pass, and no gradient, has to know of it:
//
//   before   y = matmul(x, W)                  W: a weight, [outputs…, inputs…]
//   after    W = dequantize_nf4(codes, scales, levels);   y = matmul(x, W)
//
// W is now a value of the segment and exists only there: each of a layer's lists of ops computes it
// again, right before its first reader. The codes have the blocks of 64 inputs of an output as one
// dimension, which tensor ranks divide where they divide the inputs of W.
#include <algorithm>
#include <map>

#include "base/nf4.h"
#include "compile/graph/graph_passes.h"
#include "compile/graph/rewrite.h"
#include "ir/mesh.h"
#include "model/adapter_modules.h"
#include "model/weight_names.h"

namespace tessera::compile {
namespace {

// The stored values of a weight, and the op that computes it from them.
struct Stored {
  DequantizeNf4 op;
  std::vector<ValueId> inputs;
};

class Quantizing {
 public:
  Quantizing(Graph& g, const Matmul& product, ValueId weight)
      : g_(g), weight_(weight), contract_(product.contract) {}

  Stored run() {
    const Value w = g_[weight_];
    const std::vector<WeightPart> parts = parts_of(w);
    Stored s;
    s.op = {w.shape, contract_, std::ssize(parts), parts[0].dim, w.dtype};
    std::vector<ValueId> codes, scales, levels;
    for (const WeightPart& part : parts) {
      std::vector<int64_t> dims = rows_of(part);
      scales.push_back(add(part, model::kNf4Scales, DType::kU8, Shape(dims)));
      const int64_t blocks = Shape(dims).elements();
      dims.push_back(kNf4Bytes);
      codes.push_back(add(part, model::kNf4Codes, DType::kU8, Shape(dims)));
      levels.push_back(add(part, model::kNf4Levels, DType::kF32, {nf4_levels(blocks)}));
    }
    for (const auto* list : {&codes, &scales, &levels})
      s.inputs.insert(s.inputs.end(), list->begin(), list->end());
    return s;
  }

 private:
  int out() const { return g_[weight_].shape.rank() - static_cast<int>(contract_); }

  // Returns the outputs of the part and the number of blocks of each.
  std::vector<int64_t> rows_of(const WeightPart& part) const {
    const Shape& all = g_[weight_].shape;
    std::vector<int64_t> dims(all.dims().begin(), all.dims().begin() + out());
    dims[part.dim] = part.count;
    dims.push_back(all.product(out(), all.rank()) / kNf4Block);
    return dims;
  }

  ValueId add(const WeightPart& part, std::string_view suffix, DType type, Shape shape) {
    Value v = g_[weight_];
    v.name = model::quantized_name(v.name, part.name, suffix);
    v.dtype = type;
    v.shape = std::move(shape);
    v.decays = false;
    v.initial = {};
    v.parts.clear();
    v.of = weight_;
    // Blocks have the index of the first input dimension of W. All ranks have all levels.
    if (suffix == model::kNf4Levels)
      for (int8_t& place : v.sharding.place)
        if (place >= 0) place = kShared;
    localise(v, g_.mesh);
    return g_.values.push_back(std::move(v));
  }

  Graph& g_;
  ValueId weight_;
  int64_t contract_;
};

bool reads(const Op& op, ValueId v) {
  return std::find(op.inputs.begin(), op.inputs.end(), v) != op.inputs.end();
}

// Computes the weight into `to` before the first op of the list that reads it.
void compute_before(Graph& g, std::vector<Op>& ops, ValueId weight, ValueId to, const Stored& s) {
  const auto first =
      std::find_if(ops.begin(), ops.end(), [&](const Op& op) { return reads(op, weight); });
  Op op;
  op.origin = g[weight].name;
  op.attributes = s.op;
  op.inputs = s.inputs;
  op.outputs = {to};
  const auto at = ops.insert(first, std::move(op));
  for (auto later = at + 1; later != ops.end(); ++later)
    std::replace(later->inputs.begin(), later->inputs.end(), weight, to);
}

}  // namespace

std::map<ValueId, Matmul> quantizable_weights(const Graph& g) {
  std::map<ValueId, Matmul> found;
  for (const Block& block : g.blocks) {
    if (!block.is_stack()) continue;
    for (const Op& op : block.forward) {
      const Matmul* const product = op.if_as<Matmul>();
      if (product == nullptr || product->out) continue;
      const Value& w = g[op.inputs[Matmul::kW]];
      // The matrices of adapters may be frozen too, by optimizer.freeze.
      const bool of_model = w.role == Role::kWeight && !model::is_adapter(w.name);
      if (of_model && w.frozen && (w.indexed_by & kPerLayer) != 0)
        found.emplace(op.inputs[Matmul::kW], *product);
    }
  }
  return found;
}

void quantize_weights(Graph& g) {
  for (const auto& [weight, product] : quantizable_weights(g)) {
    const Stored stored = Quantizing(g, product, weight).run();
    Value& w = g[weight];
    w.role = Role::kActivation;
    w.frozen = w.decays = false;
    bool used = false;  // the value itself is computed by the first list that reads it
    for (Block& block : g.blocks)
      for (std::vector<Op>* ops : {&block.forward, &block.backward, &block.weights}) {
        if (readers(*ops, weight) == 0) continue;
        ValueId to = weight;
        if (used) {
          to = clone_value(g, weight, ops == &block.forward ? ".other" : ".backward");
          if (ops != &block.forward) g[to].role = Role::kScratch;
        }
        compute_before(g, *ops, weight, to, stored);
        used = true;
      }
  }
}

}  // namespace tessera::compile

// LoRA adapters (Hu et al. 2021) and frozen weights, the two changes that fine-tuning makes to a
// graph:
//
//   y = x W^T   becomes   y = x W^T + (alpha / r) (x A^T) B^T,   A [r, in], B [out, r]
//
// W is frozen; A is random and B is zero at the start, so the first step computes the same as the
// model without adapters. A and B are divided over tensor ranks along the same dimension as W: A if
// W is divided by inputs, B if W is divided by outputs.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/real.h"
#include "compile/graph/graph_passes.h"
#include "compile/graph/name_patterns.h"
#include "compile/graph/rewrite.h"
#include "ir/builder.h"

namespace tessera::compile {
namespace {

constexpr std::string_view kWeightSuffix = ".weight";

bool is_target(const AdapterPolicy& policy, const std::string& name) {
  return policy.targets.empty() || matches_any(policy.targets, name);
}

// Throws Error if the rank exceeds the smaller side of the matrix: a larger rank adds no expressive
// power, and A and B would have more elements than W.
void check_rank(const Graph& g, ValueId w, int out, int64_t rank) {
  const Shape& s = g[w].shape;
  const int64_t rows = s.product(0, out), columns = s.product(out, s.rank());
  const int64_t most = std::min(rows, columns);
  if (rank > most)
    throw Error(
        "lora.rank = {} is more than {} [{}, {}] can have. Expected at most {}, or lora.targets "
        "without it.",
        rank, g[w].name, rows, columns, most);
}

// Adds an adapter matrix for weight w, divided along `divided` (-1: not divided).
ValueId adapter_weight(Graph& g, ValueId w, const char* suffix, Shape shape, double std,
                       int divided) {
  Value v = g[w];
  std::string_view name = v.name;
  if (name.ends_with(kWeightSuffix)) name.remove_suffix(kWeightSuffix.size());
  v.name = std::string(name) + suffix;
  v.shape = std::move(shape);
  v.initial = {std, 0};
  v.decays = true;
  v.frozen = false;
  v.parts.clear();
  v.sharding = Sharding();
  if (divided >= 0) v.sharding.place[AxisKind::kTensor] = static_cast<int8_t>(divided);
  return g.values.push_back(std::move(v));
}

// Returns the dimensions [from, to) of a shape, with `rank` before or after them.
Shape with_rank(const Shape& s, int from, int to, int64_t rank, bool first) {
  std::vector<int64_t> dims(s.dims().begin() + from, s.dims().begin() + to);
  dims.insert(first ? dims.begin() : dims.end(), rank);
  return Shape(dims);
}

// Rewrites y = x wᵀ to y = x wᵀ + scale · (x Aᵀ) Bᵀ.
void adapt(Graph& g, Block& block, const Op& product, const AdapterPolicy& policy) {
  const ValueId x = product.inputs[0], w = product.inputs[1], y = product.outputs[0];
  const Shape shape = g[w].shape;
  const auto contract = static_cast<int>(product.as<Matmul>().contract);
  const int out = shape.rank() - contract;
  check_rank(g, w, out, policy.rank);
  const int divided = g[w].sharding.place[AxisKind::kTensor];
  const ValueId a =
      // The standard deviation is that of PyTorch's default, uniform in ±1/sqrt(in), whose variance
      // is 1/(3 in).
      adapter_weight(g, w, ".lora_a", with_rank(shape, out, shape.rank(), policy.rank, true),
                     1 / std::sqrt(real_product(3, shape.product(out, shape.rank()))),
                     divided >= out ? divided - out + 1 : -1);
  const ValueId b = adapter_weight(g, w, ".lora_b", with_rank(shape, 0, out, policy.rank, false), 0,
                                   divided < out ? divided : -1);
  // B has the outputs of W, so it has the same parts (for example q, k and v). A reads the same
  // input for all of them.
  for (const WeightPart& part : g[w].parts)
    if (part.dim < out) g[b].parts.push_back(part);
  const ValueId base = clone_value(g, y, ".base");
  g[base].role = Role::kActivation;
  Builder builder(g, block.forward, g[y].indexed_by, "");
  Op plain = product;
  plain.outputs = {base};
  block.forward.push_back(plain);
  const std::string origin = product.origin + ".lora";
  const ValueId low = builder.emit_one(Matmul{.contract = contract}, origin + "_a", {x, a});
  const ValueId change = builder.emit_one(Matmul{.scale = policy.scale()}, origin + "_b", {low, b});
  builder.emit(Sum{.terms = 2}, origin, {base, change}, {y});
}

// Returns true for GEMMs with a weight, except a router's, whose output is f32.
bool is_adaptable(const Graph& g, const Op& op) {
  const Matmul* const a = op.if_as<Matmul>();
  return a != nullptr && !a->out && g[op.inputs[1]].role == Role::kWeight;
}

}  // namespace

void add_adapters(Graph& g, const AdapterPolicy& policy) {
  if (policy.rank == 0) return;
  for (Value& v : g.values)
    if (v.role == Role::kWeight) v.frozen = true;
  std::vector<std::string> products;
  for (Block& block : g.blocks) {
    std::vector<Op> old;
    old.swap(block.forward);
    for (Op& op : old) {
      const bool product = is_adaptable(g, op);
      if (product) products.push_back(g[op.inputs[1]].name);
      if (product && is_target(policy, products.back()))
        adapt(g, block, op, policy);
      else
        block.forward.push_back(std::move(op));
    }
  }
  require_matches("lora.targets", policy.targets, "weight of a GEMM", products);
}

}  // namespace tessera::compile

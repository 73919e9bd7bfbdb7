// Adapters and frozen weights: what fine-tuning changes in a graph.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/config.h"
#include "base/error.h"
#include "compile/graph/graph_passes.h"
#include "compile/graph/rewrite.h"
#include "ir/builder.h"

namespace tessera {
namespace {

constexpr auto kTensorAxis = static_cast<size_t>(AxisKind::kTensor);
constexpr std::string_view kWeightSuffix = ".weight";

bool is_target(const AdapterPolicy& policy, const std::string& name) {
  return policy.targets.empty() ||
         std::any_of(policy.targets.begin(), policy.targets.end(),
                     [&](const std::string& t) { return matches(t, name); });
}

bool none_matches(const std::string& pattern, const std::vector<std::string>& names) {
  return std::none_of(names.begin(), names.end(),
                      [&](const std::string& name) { return matches(pattern, name); });
}

// What a pattern that matches none of `names` may have meant. A name is that of all layers, so a
// layer's number is one mistake.
std::string meant(const std::string& pattern, const std::vector<std::string>& names) {
  std::string of_all = pattern, core = pattern;
  std::erase_if(of_all, [](char c) { return c >= '0' && c <= '9'; });
  std::erase(core, '*');
  const auto has_core = [&](const std::string& name) { return name.find(core) != name.npos; };
  std::string guess = none_matches(of_all, names) ? nearest(core, names) : of_all;
  if (guess.empty() && std::any_of(names.begin(), names.end(), has_core)) guess = "*" + core + "*";
  return fmt::format("{}There are: {}.",
                     guess.empty() ? "" : fmt::format("Did you mean '{}'? ", guess),
                     fmt::join(names, ", "));
}

// Beyond the smaller side of a matrix the adapters' product has more numbers than the weight and
// can be nothing that one of that rank is not.
void check_rank(const Graph& g, ValueId w, int out, int64_t rank) {
  const Shape& s = g[w].shape;
  const int64_t rows = s.product(0, out), columns = s.product(out, s.rank());
  const int64_t most = std::min(rows, columns);
  if (rank > most)
    throw Error(
        "lora.rank = {} is more than {} [{}, {}] can have. Wanted at most {}, or lora.targets "
        "without it.",
        rank, g[w].name, rows, columns, most);
}

// An adapter's matrix for weight w, divided where w is.
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
  if (divided >= 0) v.sharding.place[kTensorAxis] = static_cast<int8_t>(divided);
  return g.values.push_back(std::move(v));
}

// The dimensions [from, to) of a shape behind or before `rank`.
Shape with_rank(const Shape& s, int from, int to, int64_t rank, bool first) {
  std::vector<int64_t> dims(s.dims().begin() + from, s.dims().begin() + to);
  dims.insert(first ? dims.begin() : dims.end(), rank);
  return Shape(dims);
}

// y = x wᵀ  becomes  y = x wᵀ + scale · (x Aᵀ) Bᵀ.
void adapt(Graph& g, Block& block, const Op& product, const AdapterPolicy& policy) {
  const ValueId x = product.inputs[0], w = product.inputs[1], y = product.outputs[0];
  const Shape shape = g[w].shape;
  const auto contract = static_cast<int>(product.as<Matmul>().contract);
  const int out = shape.rank() - contract;
  check_rank(g, w, out, policy.rank);
  const int divided = g[w].sharding.place[kTensorAxis];
  const double inputs = static_cast<double>(shape.product(out, shape.rank()));
  const ValueId a =
      adapter_weight(g, w, ".lora_a", with_rank(shape, out, shape.rank(), policy.rank, true),
                     1 / std::sqrt(3 * inputs), divided >= out ? divided - out + 1 : -1);
  const ValueId b = adapter_weight(g, w, ".lora_b", with_rank(shape, 0, out, policy.rank, false), 0,
                                   divided < out ? divided : -1);
  // B has the weight's outputs, so the same parts; A reads the input for all of them.
  for (const WeightPart& part : g[w].parts)
    if (part.dim < out) g[b].parts.push_back(part);
  const ValueId base = clone_value(g, y, ".base");
  g[base].role = Role::kActivation;
  Builder builder(g, block.forward, g[y].per, "");
  Op plain = product;
  plain.outputs = {base};
  block.forward.push_back(plain);
  const std::string origin = product.origin + ".lora";
  const ValueId low = builder.emit_one(Matmul{.contract = contract}, origin + "_a", {x, a});
  const ValueId change = builder.emit_one(Matmul{.scale = policy.scale()}, origin + "_b", {low, b});
  builder.emit(Sum{.terms = 2}, origin, {base, change}, {y});
}

}  // namespace

// Each part between two stars is taken where it is first found: a later place leaves less for the
// parts after it. So the time is at most the product of the lengths.
bool matches(std::string_view pattern, std::string_view name) {
  const size_t first = pattern.find('*');
  if (first == pattern.npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, first))) return false;
  name.remove_prefix(first);
  pattern.remove_prefix(first + 1);
  for (size_t star; (star = pattern.find('*')) != pattern.npos; pattern.remove_prefix(star + 1)) {
    const size_t found = name.find(pattern.substr(0, star));
    if (found == name.npos) return false;
    name.remove_prefix(found + star);
  }
  return name.ends_with(pattern);
}

void add_adapters(Graph& g, const AdapterPolicy& policy) {
  if (policy.rank == 0) return;
  for (Value& v : g.values)
    if (v.role == Role::kWeight) v.frozen = true;
  std::vector<std::string> products;
  for (Block& block : g.blocks) {
    std::vector<Op> old;
    old.swap(block.forward);
    for (Op& op : old) {
      const bool product = op.is<Matmul>() && g[op.inputs[1]].role == Role::kWeight;
      if (product) products.push_back(g[op.inputs[1]].name);
      if (product && is_target(policy, products.back()))
        adapt(g, block, op, policy);
      else
        block.forward.push_back(std::move(op));
    }
  }
  for (const std::string& t : policy.targets)
    if (none_matches(t, products))
      throw Error("lora.targets has '{}', which is the name of no product's weight. {}", t,
                  meant(t, products));
}

void freeze(Graph& g, const std::vector<std::string>& patterns) {
  std::vector<std::string> weights;
  for (const Value& v : g.values)
    if (v.role == Role::kWeight) weights.push_back(known_name(v));
  for (const std::string& p : patterns) {
    if (none_matches(p, weights))
      throw Error("optimizer.freeze has '{}', which is the name of no weight. {}", p,
                  meant(p, weights));
    for (Value& v : g.values)
      if (v.role == Role::kWeight && matches(p, known_name(v))) v.frozen = true;
  }
  const bool trains = std::any_of(g.values.begin(), g.values.end(), [](const Value& v) {
    return v.role == Role::kWeight && !v.frozen;
  });
  if (!trains) throw Error("optimizer.freeze leaves nothing to train.");
}

}  // namespace tessera

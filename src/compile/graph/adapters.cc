// LoRA adapters (Hu et al. 2021), DoRA (Liu et al. 2024) and frozen weights, the changes that
// fine-tuning makes to a graph:
//
//   y = x W^T   becomes   y = x W^T + s (x A^T) B^T,   A [r, in], B [out, r]
//   with DoRA   y = m / |W + s B A| * (x W^T + s (x A^T) B^T),   m [out], the norm of each row
//
// W is frozen; A is random, B is zero and m is |W| at the start, so the first step computes the
// same as the model without adapters. A and B are divided over tensor ranks along the same
// dimension as W: A if W is divided by inputs, B and m if W is divided by outputs.
//
// The matrices of experts [E, outputs…, inputs] get A [E, r, in] and B [E, outputs…, r]. Their op
// computes with the sum W + s B A (ir/ops/experts.h). They have adapters only if a target names
// them, as in PEFT, where they are parameters and not modules.
//
// A packed weight holds several matrices of the published model, such as q, k and v. Each of them
// has an adapter of its own, or none, as it has in PEFT.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/real.h"
#include "compile/graph/graph_passes.h"
#include "compile/graph/name_patterns.h"
#include "compile/graph/rewrite.h"
#include "ir/builder.h"
#include "model/adapter_modules.h"

namespace tessera::compile {
namespace {

constexpr std::string_view kWeightSuffix = ".weight";
constexpr std::string_view kAllLinear = "all-linear";  // as in PEFT

std::string without_suffix(std::string_view name) {
  if (name.ends_with(kWeightSuffix)) name.remove_suffix(kWeightSuffix.size());
  return std::string(name);
}

// The names of the matrices that can have adapters.
class TargetNames {
 public:
  explicit TargetNames(const model::ModelConfig& model) {
    for (const model::AdapterModule& m : model::adapter_modules(model)) {
      const std::string module = m.module();
      modules_[model::without_layer(m.ours())].emplace(model::after_layer(module));
    }
  }

  // Returns true if the policy has an adapter for a part of a weight, or for a weight that has no
  // parts. `matrix` is the name of the weight without its suffix, followed by the name of the part.
  bool is_target(const AdapterPolicy& policy, const std::string& weight,
                 const std::string& matrix) const {
    if (policy.targets.empty()) return !is_of_experts(matrix);
    return std::any_of(policy.targets.begin(), policy.targets.end(),
                       [&](const std::string& t) { return names(t, weight, matrix); });
  }

  // Throws Error that lists the possible names if a target matches none of `weights` (weight name →
  // names of its matrices).
  void require(const AdapterPolicy& policy,
               const std::map<std::string, std::vector<std::string>>& weights) const {
    std::vector<std::string> known;
    std::set<std::string> short_names;
    for (const auto& [weight, matrices] : weights) {
      known.push_back(weight);
      for (const std::string& matrix : matrices)
        for (const std::string& module : modules_of(matrix))
          short_names.insert(model::is_of_experts(module) ? module
                                                          : module.substr(module.rfind('.') + 1));
    }
    known.insert(known.end(), short_names.begin(), short_names.end());
    known.emplace_back(kAllLinear);
    for (const std::string& target : policy.targets) {
      const bool found = std::any_of(weights.begin(), weights.end(), [&](const auto& w) {
        return std::any_of(w.second.begin(), w.second.end(), [&](const std::string& matrix) {
          return names(target, w.first, matrix);
        });
      });
      if (!found)
        require_matches("lora.targets", {target}, "weight that can have an adapter", known);
    }
  }

 private:
  bool is_of_experts(const std::string& matrix) const {
    const std::set<std::string> modules = modules_of(matrix);
    return !modules.empty() && model::is_of_experts(*modules.begin());
  }
  std::set<std::string> modules_of(const std::string& matrix) const {
    const auto found = modules_.find(matrix);
    return found == modules_.end() ? std::set<std::string>() : found->second;
  }
  bool names(const std::string& target, const std::string& weight,
             const std::string& matrix) const {
    // Experts are adapted only by their own names: in all-linear or layer.mlp.* they are not meant.
    if (is_of_experts(matrix) && target.find("experts") == target.npos) return false;
    if (target == kAllLinear) return true;
    if (matches(target, weight) || matches(target, matrix + std::string(kWeightSuffix)))
      return true;
    const std::set<std::string> modules = modules_of(matrix);
    return std::any_of(modules.begin(), modules.end(), [&](const std::string& module) {
      return model::names_module(target, module);
    });
  }

  std::map<std::string, std::set<std::string>> modules_;  // by matrix
};

// A part of a packed weight, or the whole of another one, that gets an adapter.
struct Matrix {
  std::string name;  // "layer.attn.qkv.q", "layer.attn.out"
  WeightPart part;   // without a name: the whole weight
  bool is_part() const { return !part.name.empty(); }
};

std::vector<Matrix> matrices_of(const Value& weight) {
  std::vector<Matrix> all;
  const std::string name = without_suffix(weight.name);
  for (const WeightPart& part : parts_of(weight))
    all.push_back({part.name.empty() ? name : name + "." + part.name, part});
  return all;
}

// Throws Error if the rank exceeds the smaller side of a matrix: a larger rank adds no expressive
// power, and A and B would have more elements than W.
void check_rank(const AdapterPolicy& policy, const std::string& matrix, int64_t rows,
                int64_t columns) {
  const int64_t most = std::min(rows, columns);
  if (policy.rank > most)
    throw Error(
        "lora.rank = {} is more than {}{} [{}, {}] can have. Expected at most {}, or "
        "lora.targets without it.",
        policy.rank, matrix, kWeightSuffix, rows, columns, most);
}

// Adds a weight of an adapter of `weight`, not divided among ranks.
ValueId add_weight(Graph& g, const Value& weight, std::string name, Shape shape, Initial initial,
                   bool decays) {
  Value v = weight;
  v.name = std::move(name);
  v.shape = std::move(shape);
  v.initial = initial;
  v.decays = decays;
  v.frozen = false;
  v.parts.clear();
  v.sharding = Sharding();
  return g.values.push_back(std::move(v));
}

// The standard deviation of A is that of PyTorch's default, uniform in ±1/sqrt(in), whose variance
// is 1/(3 in).
Initial initial_a(int64_t inputs) { return {1 / std::sqrt(real_product(3, inputs)), 0}; }

// Rewrites a GEMM. Values are named after the matrix that they belong to.
class Adapting {
 public:
  Adapting(Graph& g, Block& block, const Op& product, const AdapterPolicy& policy)
      : g_(g),
        policy_(policy),
        product_(product),
        builder_(g, block.forward, g[product.outputs[0]].indexed_by, ""),
        contract_(static_cast<int>(product.as<Matmul>().contract)),
        out_(g[product.inputs[Matmul::kW]].shape.rank() - contract_) {}

  void run(Block& block, const std::vector<Matrix>& matrices) {
    const ValueId y = product_.outputs[0];
    std::vector<Weights> weights;
    for (const Matrix& m : matrices) weights.push_back(add_weights(m));
    ValueId sum = clone_value(g_, y, ".base");
    g_[sum].role = Role::kActivation;
    Op plain = product_;
    plain.outputs = {sum};
    block.forward.push_back(plain);
    const bool scaled = policy_.kind == AdapterKind::kDora;
    for (size_t i = 0; i < matrices.size(); ++i)
      sum =
          add_change(matrices[i], weights[i], sum, !scaled && i + 1 == matrices.size() ? y : kNone);
    for (size_t i = 0; scaled && i < matrices.size(); ++i)
      sum = scale(matrices[i], weights[i], sum, i + 1 == matrices.size() ? y : kNone);
  }

 private:
  struct Weights {
    ValueId a = kNone, b = kNone, magnitude = kNone;
  };

  const Value& weight() const { return g_[product_.inputs[Matmul::kW]]; }
  int divided() const { return weight().sharding.place[AxisKind::kTensor]; }
  std::string origin(const Matrix& m) const {
    return product_.origin + (m.is_part() ? "." + m.part.name : "") + ".lora";
  }
  // The dimension of y that is cut into parts.
  int64_t dim(const Matrix& m) const {
    return g_[product_.outputs[0]].shape.rank() - out_ + m.part.dim;
  }

  // Returns the output dimensions of the matrix.
  std::vector<int64_t> outputs(const Matrix& m) const {
    const std::vector<int64_t>& all = weight().shape.dims();
    std::vector<int64_t> dims(all.begin(), all.begin() + out_);
    dims[m.part.dim] = m.part.count;
    return dims;
  }

  // Adds a weight of an adapter, divided along `divided` (-1: not divided).
  ValueId add(const Matrix& m, std::string_view suffix, Shape shape, Initial initial, bool decays,
              int divided) {
    const ValueId v =
        add_weight(g_, weight(), m.name + std::string(suffix), std::move(shape), initial, decays);
    if (divided >= 0) g_[v].sharding.place[AxisKind::kTensor] = static_cast<int8_t>(divided);
    return v;
  }

  Weights add_weights(const Matrix& m) {
    const std::vector<int64_t>& all = weight().shape.dims();
    std::vector<int64_t> in(all.begin() + out_, all.end()), out = outputs(m);
    check_rank(policy_, m.name, Shape(out).elements(), Shape(in).elements());
    const int by = divided(), of_outputs = by < out_ ? by : -1;
    const Initial initial = initial_a(Shape(in).elements());
    Weights w;
    in.insert(in.begin(), policy_.rank);
    w.a = add(m, model::kLoraA, Shape(in), initial, true, by >= out_ ? by - out_ + 1 : -1);
    if (policy_.kind == AdapterKind::kDora)
      // A run computes the norms of the rows of W when it has loaded W.
      w.magnitude = add(m, model::kLoraMagnitude, Shape(out), {0, 1}, false, of_outputs);
    out.push_back(policy_.rank);
    w.b = add(m, model::kLoraB, Shape(out), {0, 0}, true, of_outputs);
    return w;
  }

  // Adds s (x Aᵀ) Bᵀ to the outputs of the matrix in `sum`. Returns the result, which is `to` if
  // that is given.
  ValueId add_change(const Matrix& m, const Weights& w, ValueId sum, ValueId to) {
    const std::string origin = this->origin(m);
    const ValueId low = builder_.emit_one(Matmul{.contract = contract_}, origin + "_a",
                                          {product_.inputs[Matmul::kX], w.a});
    const ValueId change =
        builder_.emit_one(Matmul{.scale = policy_.scale()}, origin + "_b", {low, w.b});
    if (!m.is_part()) return builder_.emit(Sum{.terms = 2}, origin, {sum, change}, {to})[0];
    return builder_.emit(AddPart{dim(m), m.part.first}, origin, {sum, change}, {to})[0];
  }

  // Multiplies the outputs of the matrix by m / |W + s B A|.
  ValueId scale(const Matrix& m, const Weights& w, ValueId sum, ValueId to) {
    const std::string origin = this->origin(m);
    const ValueId squares =
        builder_.emit_one(AdaptedSquares{policy_.scale(), m.part.dim, m.part.first},
                          origin + "_norm", {product_.inputs[Matmul::kW], w.a, w.b});
    return builder_.emit(ScalePart{dim(m), m.part.first}, origin + "_scale",
                         {sum, w.magnitude, squares}, {to})[0];
  }

  Graph& g_;
  const AdapterPolicy& policy_;
  const Op& product_;
  Builder builder_;
  int contract_, out_;
};

// Adds adapters to matrices of an op of experts.
class AdaptingExperts {
 public:
  AdaptingExperts(Graph& g, const AdapterPolicy& policy) : g_(g), policy_(policy) {}

  Op run(Op op, bool up, bool down) {
    if (policy_.kind == AdapterKind::kDora)
      throw Error(
          "lora.kind = dora is not supported for experts ({}), as in PEFT. Use lora.kind: lora, or "
          "remove the experts from lora.targets.",
          g_[op.inputs[up ? Experts::kUp : Experts::kDown]].name);
    op.as<Experts>().adapters = {up, down, policy_.scale()};
    if (up) add(op, op.inputs[Experts::kUp]);
    if (down) add(op, op.inputs[Experts::kDown]);
    return op;
  }

 private:
  void add(Op& op, ValueId of) {
    const Value w = g_[of];
    const std::string name = without_suffix(w.name);
    const int input = w.shape.rank() - 1;
    const int64_t inputs = w.shape[input], experts = w.shape[0];
    check_rank(policy_, name, w.shape.product(1, input), inputs);
    std::vector<int64_t> outputs = w.shape.dims();
    outputs.back() = policy_.rank;
    const ValueId a = add_weight(g_, w, name + std::string(model::kLoraA),
                                 {experts, policy_.rank, inputs}, initial_a(inputs), true);
    const ValueId b =
        add_weight(g_, w, name + std::string(model::kLoraB), Shape(outputs), {0, 0}, true);
    const int8_t by = w.sharding.place[AxisKind::kTensor];
    constexpr int8_t kInputsOfA = 2;
    if (by == input) g_[a].sharding.place[AxisKind::kTensor] = kInputsOfA;
    if (by >= 0 && by < input) g_[b].sharding.place[AxisKind::kTensor] = by;
    for (const ValueId v : {a, b})
      g_[v].sharding.place[AxisKind::kExpert] = w.sharding.place[AxisKind::kExpert];
    op.inputs.insert(op.inputs.end(), {a, b});
  }

  Graph& g_;
  const AdapterPolicy& policy_;
};

// Selects the matrices that get adapters, and records all matrices that it was asked about, so that
// require() can report a target that names none of them.
class Choice {
 public:
  Choice(const AdapterPolicy& policy, const model::ModelConfig& model)
      : policy_(policy), targets_(model) {}

  // Returns the matrices of the weight that are to have adapters.
  std::vector<Matrix> of(const Value& weight) {
    std::vector<Matrix> chosen;
    std::vector<std::string>& names = weights_[weight.name];
    for (Matrix& m : matrices_of(weight)) {
      if (std::find(names.begin(), names.end(), m.name) == names.end()) names.push_back(m.name);
      if (targets_.is_target(policy_, weight.name, m.name)) chosen.push_back(std::move(m));
    }
    return chosen;
  }
  // Throws Error if a target matches no weight that was passed to of().
  void require() const { targets_.require(policy_, weights_); }

 private:
  const AdapterPolicy& policy_;
  TargetNames targets_;
  std::map<std::string, std::vector<std::string>> weights_;
};

}  // namespace

void add_adapters(Graph& g, const AdapterPolicy& policy, const model::ModelConfig& model) {
  if (policy.rank == 0) return;
  for (Value& v : g.values)
    if (v.role == Role::kWeight) v.frozen = true;
  Choice choice(policy, model);
  for (Block& block : g.blocks) {
    std::vector<Op> old;
    old.swap(block.forward);
    for (Op& op : old) {
      if (op.is<Experts>()) {
        Value up = g[op.inputs[Experts::kUp]], down = g[op.inputs[Experts::kDown]];
        up.parts.clear();  // gates and values have one adapter, as in PEFT
        const bool adapts_up = !choice.of(up).empty(), adapts_down = !choice.of(down).empty();
        if (adapts_up || adapts_down)
          op = AdaptingExperts(g, policy).run(std::move(op), adapts_up, adapts_down);
      }
      std::vector<Matrix> chosen;
      if (model::is_adaptable(g, op)) chosen = choice.of(Value(g[op.inputs[Matmul::kW]]));
      if (chosen.empty())
        block.forward.push_back(std::move(op));
      else
        Adapting(g, block, op, policy).run(block, chosen);
    }
  }
  choice.require();
}

}  // namespace tessera::compile

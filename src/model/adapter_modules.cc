// Finds the matrices that adapters can change by the GEMMs and experts of the model's forward, and
// their names on the other side by hf_tensors(). An adapter's A has the input dimensions of the
// weight, and its B the output dimensions, so their tensors follow from the description of the
// weight. Files of most families have a tensor per expert and matrix, but PEFT adapts the two
// parameters into which transformers packs these tensors.
#include "model/adapter_modules.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "model/forward.h"
#include "model/weight_names.h"

namespace tessera::model {
namespace {

// An adaptable weight, the number of its dimensions that are not inputs, and the number of experts
// (0: it is not a weight of experts).
struct Adaptable {
  const Value* weight = nullptr;
  int64_t outputs = 1, experts = 0;
};

std::map<std::string, Adaptable> adaptable_weights(const Graph& g) {
  std::map<std::string, Adaptable> found;
  for (const Block& block : g.blocks)
    for (const Op& op : block.forward)
      if (is_adaptable(g, op)) {
        const Value& w = g[op.inputs[Matmul::kW]];
        found[w.name] = {&w, w.shape.rank() - op.as<Matmul>().contract};
      } else if (const Experts* const a = op.if_as<Experts>()) {
        for (const Experts::In slot : {Experts::kUp, Experts::kDown}) {
          const Value& w = g[op.inputs[slot]];
          found[w.name] = {&w, w.shape.rank() - 1, a->experts};
        }
      }
  return found;
}

constexpr std::string_view kExperts = ".experts.", kGateUp = "gate_up_proj", kDown = "down_proj";

// Returns the tensor of all experts on both sides, given the tensor of one expert in a file.
// transformers stores all gates before all values; in gpt-oss the two are interleaved.
HfTensor whole_of_experts(const ModelConfig& m, const HfTensor& one) {
  const Shape& shape = one.shape;
  const bool up = shape.rank() == 4, in_turns = m.family == Family::kGptOss;
  const int64_t E = shape[0];
  HfTensor t;
  t.ours = one.ours;
  const std::string_view layer = after_layer(one.theirs);
  t.theirs = one.theirs.substr(0, one.theirs.size() - layer.size());
  t.theirs += "mlp" + std::string(kExperts) + std::string(up ? kGateUp : kDown);
  t.shape = shape;
  t.begin.assign(static_cast<size_t>(shape.rank()), 0);
  if (!up && in_turns) {
    t.view = t.their_shape = {E, shape[2], shape[1]};
    t.axes = {0, 2, 1};
  } else if (!up) {
    t.view = t.their_shape = shape;
    t.axes = {0, 1, 2};
  } else if (in_turns) {
    t.view = {E, shape[3], shape[1], 2};
    t.their_shape = {E, shape[3], 2 * shape[1]};
    t.axes = {0, 2, 3, 1};
  } else {
    t.view = {E, 2, shape[1], shape[3]};
    t.their_shape = {E, 2 * shape[1], shape[3]};
    t.axes = {0, 2, 1, 3};
  }
  return t;
}

HfTensor a_of_experts(const HfTensor& w, int64_t rank) {
  const int64_t E = w.shape[0], in = w.shape[-1];
  HfTensor t;
  t.shape = t.view = {E, rank, in};
  t.their_shape = {E * rank, in};
  t.axes = {0, 1, 2};
  t.begin = {0, 0, 0};
  return t;
}

// PEFT's B is viewed as [out…, rank, E], with the outputs in the order of the matrix.
HfTensor b_of_experts(const HfTensor& w, int64_t rank) {
  const int64_t E = w.shape[0];
  HfTensor t;
  if (w.shape.rank() == 3) {
    t.shape = {E, w.shape[1], rank};
    t.view = {w.shape[1], rank, E};
    t.axes = {2, 0, 1};
  } else {
    const int64_t M = w.shape[1];
    const bool gates_first = w.axes[1] > w.axes[2];
    t.shape = {E, M, 2, rank};
    t.view = gates_first ? Shape{2, M, rank, E} : Shape{M, 2, rank, E};
    t.axes = gates_first ? std::vector<int>{3, 1, 0, 2} : std::vector<int>{3, 0, 1, 2};
  }
  t.their_shape = {t.shape.elements() / E / rank, rank * E};
  t.begin.assign(static_cast<size_t>(t.shape.rank()), 0);
  return t;
}

// Returns the part of a packed weight that the tensor is, or the whole of another weight. Layers of
// different widths have weights of one name, so the size of the whole is that of the tensor.
WeightPart part_of(const Value& weight, const HfTensor& t) {
  if (weight.parts.empty()) return {"", 0, 0, t.shape[0]};
  const auto part =
      std::find_if(weight.parts.begin(), weight.parts.end(), [&](const WeightPart& p) {
        return t.begin[p.dim] == p.first && t.part()[static_cast<int>(p.dim)] == p.count;
      });
  CHECK(part != weight.parts.end(), "{} is not a part of {}", t.theirs, weight.name);
  return *part;
}

// Returns those dimensions [from, to) of the tensor's part that an adapter's matrix has, on both
// sides. Theirs are in the order of the view.
HfTensor sides(const HfTensor& t, int from, int to, std::string ours, std::string theirs) {
  HfTensor out;
  out.ours = std::move(ours);
  out.theirs = std::move(theirs);
  std::vector<int> axes(t.axes.begin() + from, t.axes.begin() + to), order = axes;
  std::sort(order.begin(), order.end());
  std::vector<int64_t> view, shape;
  for (const int axis : order) view.push_back(t.view[axis]);
  for (const int axis : axes) {
    const auto at = std::find(order.begin(), order.end(), axis) - order.begin();
    out.axes.push_back(static_cast<int>(at));
  }
  for (int d = from; d < to; ++d) shape.push_back(t.shape[d]);
  out.view = Shape(view);
  out.shape = Shape(shape);
  out.begin.assign(t.begin.begin() + from, t.begin.begin() + to);
  return out;
}

// Adds a dimension of extent `rank`, before or after the others, on both sides.
void add_rank(HfTensor& t, int64_t rank, bool first) {
  const auto with = [&](const Shape& s) {
    std::vector<int64_t> dims = s.dims();
    dims.insert(first ? dims.begin() : dims.end(), rank);
    return Shape(dims);
  };
  t.shape = with(t.shape);
  t.view = with(t.view);
  t.begin.insert(first ? t.begin.begin() : t.begin.end(), 0);
  if (first)
    for (int& axis : t.axes) ++axis;
  t.axes.insert(first ? t.axes.begin() : t.axes.end(), first ? 0 : static_cast<int>(t.axes.size()));
}

HfTensor named(HfTensor t, std::string ours, std::string theirs) {
  t.ours = std::move(ours);
  t.theirs = std::move(theirs);
  return t;
}

}  // namespace

bool is_adaptable(const Graph& graph, const Op& op) {
  const Matmul* const a = op.if_as<Matmul>();
  return a != nullptr && !a->out && graph[op.inputs[Matmul::kW]].role == Role::kWeight;
}

bool is_adapter(std::string_view name) {
  return name.ends_with(kLoraA) || name.ends_with(kLoraB) || name.ends_with(kLoraMagnitude);
}

std::string AdapterModule::ours() const {
  return without_weight(tensor.ours) + (part.name.empty() ? "" : "." + part.name);
}

std::string AdapterModule::module() const { return without_weight(tensor.theirs); }

HfTensor AdapterModule::a(int64_t rank) const {
  const int out = static_cast<int>(outputs);
  const std::string own = ours() + std::string(kLoraA), other = module() + ".lora_A.weight";
  if (experts > 0) return named(a_of_experts(tensor, rank), own, other);
  HfTensor t = sides(tensor, out, tensor.shape.rank(), own, other);
  t.their_shape = {rank, t.view.elements()};
  add_rank(t, rank, true);
  return t;
}

// A part of a packed weight has a B of its own, so it begins at 0. Rows of a fused Hugging Face
// tensor are rows of its B.
HfTensor AdapterModule::b(int64_t rank) const {
  const std::string own = ours() + std::string(kLoraB), other = module() + ".lora_B.weight";
  if (experts > 0) return named(b_of_experts(tensor, rank), own, other);
  HfTensor t = named(magnitude(), own, other);
  t.their_shape = {t.their_shape.elements(), rank};
  add_rank(t, rank, false);
  return t;
}

HfTensor AdapterModule::magnitude() const {
  const int out = static_cast<int>(outputs);
  HfTensor t = sides(tensor, 0, out, ours() + std::string(kLoraMagnitude),
                     module() + ".lora_magnitude_vector");
  t.their_row = tensor.their_row;
  int64_t inputs = 1;
  for (int d = out; d < tensor.shape.rank(); ++d) inputs *= tensor.shape[d];
  t.their_shape = {tensor.their_shape.elements() / inputs};
  if (!part.name.empty()) {
    std::fill(t.begin.begin(), t.begin.end(), 0);
    t.shape = t.part();
  }
  return t;
}

std::vector<AdapterModule> adapter_modules(const ModelConfig& model) {
  const Graph graph = forward(model, 1, 1);
  const std::map<std::string, Adaptable> weights = adaptable_weights(graph);
  std::vector<AdapterModule> modules;
  for (HfTensor& t : hf_tensors(model)) {
    const auto found = weights.find(without_layer(t.ours));
    if (found == weights.end()) continue;
    AdapterModule m;
    m.experts = found->second.experts;
    if (m.experts > 0) {
      // The tensors of all experts of one matrix follow each other; the first describes them all.
      if (!modules.empty() && modules.back().tensor.ours == t.ours) continue;
      t = whole_of_experts(model, t);
    }
    // Gates and values of experts have one adapter, as in PEFT.
    m.part = m.experts > 0 ? WeightPart{"", 0, 0, t.shape[0]} : part_of(*found->second.weight, t);
    m.outputs = found->second.outputs;
    m.tensor = std::move(t);
    modules.push_back(std::move(m));
  }
  return modules;
}

std::string_view after_layer(std::string_view name) {
  for (size_t at = 0; at < name.size();) {
    const size_t dot = std::min(name.find('.', at), name.size());
    const std::string_view word = name.substr(at, dot - at);
    if (!word.empty() && word.find_first_not_of("0123456789") == word.npos && dot < name.size())
      return name.substr(dot + 1);
    at = dot + 1;
  }
  return name;
}

std::string without_layer(std::string_view name) {
  std::string out(name);
  const size_t dot = std::min(out.find('.'), out.size());
  // Weights of multi-token prediction are not one weight for all depths.
  if (dot == 0 || is_of_prediction(name)) return out;
  const size_t end = out.find_last_not_of("0123456789", dot - 1) + 1;
  return out.erase(end, dot - end);
}

bool is_of_prediction(std::string_view weight) { return weight.starts_with("mtp"); }

bool is_of_experts(std::string_view module) { return module.find(kExperts) != module.npos; }

bool names_module(std::string_view target, std::string_view module) {
  if (!module.ends_with(target)) return false;
  module.remove_suffix(target.size());
  if (module.empty()) return true;
  return module.back() == '.' && !module.ends_with(kExperts);
}

}  // namespace tessera::model

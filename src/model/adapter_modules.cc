// Finds the matrices that adapters can change by the GEMMs of the model's forward, and their names
// on the other side by hf_tensors(). An adapter's A has the input dimensions of the weight, and its
// B the output dimensions, so their tensors follow from the description of the weight.
#include "model/adapter_modules.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "model/forward.h"

namespace tessera::model {
namespace {

constexpr std::string_view kWeight = ".weight";

std::string without_weight(std::string_view name) {
  if (name.ends_with(kWeight)) name.remove_suffix(kWeight.size());
  return std::string(name);
}

// The weight of an adaptable GEMM, and how many of its dimensions are outputs.
struct Adaptable {
  const Value* weight = nullptr;
  int64_t outputs = 1;
};

std::map<std::string, Adaptable> adaptable_weights(const Graph& g) {
  std::map<std::string, Adaptable> found;
  for (const Block& block : g.blocks)
    for (const Op& op : block.forward)
      if (is_adaptable(g, op)) {
        const Value& w = g[op.inputs[Matmul::kW]];
        found[w.name] = {&w, w.shape.rank() - op.as<Matmul>().contract};
      }
  return found;
}

// Returns the part of a packed weight that the tensor is, or the whole of another weight.
WeightPart part_of(const Value& weight, const HfTensor& t) {
  for (const WeightPart& p : weight.parts)
    if (t.begin[p.dim] == p.first && t.part()[static_cast<int>(p.dim)] == p.count) return p;
  CHECK(weight.parts.empty(), "{} is not a part of {}", t.theirs, weight.name);
  return parts_of(weight).front();
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
  HfTensor t = sides(tensor, out, tensor.shape.rank(), ours() + std::string(kLoraA),
                     module() + ".lora_A.weight");
  t.their_shape = {rank, t.view.elements()};
  add_rank(t, rank, true);
  return t;
}

// A part of a packed weight has a B of its own, so it begins at 0. Rows of a fused tensor of theirs
// are rows of its B.
HfTensor AdapterModule::b(int64_t rank) const {
  HfTensor t = magnitude();
  t.ours = ours() + std::string(kLoraB);
  t.theirs = module() + ".lora_B.weight";
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
    m.part = part_of(*found->second.weight, t);
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
  if (dot == 0 || name.starts_with("mtp")) return out;
  const size_t end = out.find_last_not_of("0123456789", dot - 1) + 1;
  return out.erase(end, dot - end);
}

bool names_module(std::string_view target, std::string_view module) {
  if (!module.ends_with(target)) return false;
  module.remove_suffix(target.size());
  return module.empty() || module.back() == '.';
}

}  // namespace tessera::model

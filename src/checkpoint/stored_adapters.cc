// Reads the adapters of a run's checkpoint, by the modules of the base model that they belong to,
// and holds those of any source in memory.
#include "checkpoint/stored_adapters.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/shape.h"
#include "checkpoint/convert.h"
#include "checkpoint/peft.h"
#include "checkpoint/stored_model.h"

namespace tessera::checkpoint {
namespace {

std::string adapter_name(const model::AdapterModule& m) {
  return m.ours() + std::string(model::kLoraA);
}

// Reads a tensor of the checkpoint, or adds a fault if it is not there in that shape.
void read_tensor(CheckpointReader& reader, const model::HfTensor& t, StoredAdapters& out,
                 std::vector<std::string>& faults) {
  if (out.tensors.contains(t.ours)) return;
  const StoredTensor* const stored = reader.find(t.ours);
  if (stored == nullptr || stored->shape != t.shape || !is_float(stored->dtype)) {
    faults.push_back(fmt::format("{}: {}, expected {} in a floating-point type", t.ours,
                                 stored == nullptr ? std::string("missing")
                                                   : fmt::format("is {} {}", name_of(stored->dtype),
                                                                 to_string(stored->shape)),
                                 to_string(t.shape)));
    return;
  }
  StoredAdapters::Tensor& to = out.tensors[t.ours];
  to = {t.shape, std::vector<float>(t.shape.elements())};
  reader.read(t.ours, {to.values.data(), DType::kF32, t.shape});
}

// Reads the adapters in a checkpoint. A matrix that has one in some layer must have one in all
// layers of the base model.
StoredAdapters read_from_checkpoint(const Path& path, const model::ModelConfig& model) {
  CheckpointReader reader(path);
  if (!has_adapters(reader))
    throw Error(
        "{}: contains no adapters. Expected a PEFT folder (adapter_config.json and "
        "adapter_model.safetensors), or a run that was trained with lora.rank.",
        path.string());
  require_logits(reader);
  require_adapters_of_parts(reader, model);
  StoredAdapters out;
  out.folder = path;
  out.settings = adapter_settings(reader);
  out.settings.quantize = "none";  // the base model decides how its weights are stored
  std::vector<std::string> faults;
  std::set<std::string> matrices, expected;
  const std::vector<model::AdapterModule> modules = model::adapter_modules(model);
  for (const model::AdapterModule& m : modules)
    if (reader.find(adapter_name(m)) != nullptr) matrices.insert(model::without_layer(m.ours()));
  for (const model::AdapterModule& m : modules) {
    if (!matrices.contains(model::without_layer(m.ours()))) continue;
    for (const model::HfTensor& t : adapter_tensors(m, out.settings, path)) {
      expected.insert(t.ours);
      read_tensor(reader, t, out, faults);
    }
  }
  for (const StoredTensor& t : reader.tensors())
    if (model::is_adapter(t.name) && !expected.contains(t.name))
      faults.push_back(t.name + ": not an adapter of this model");
  if (!faults.empty())
    throw Error(
        "{}: its adapters are not those of the base model. Use the model that the run started "
        "from:{}",
        path.string(), listed_faults(faults));
  return out;
}

}  // namespace

void StoredAdapters::read(std::string_view name, std::span<const int64_t> begin,
                          std::span<const int64_t> end, const TensorView& out) const {
  const auto found = tensors.find(name);
  if (found == tensors.end())
    throw Error(
        "{}: has no adapter '{}'. Set lora.targets to the modules of the folder, or remove the "
        "key.",
        folder.string(), name);
  const Tensor& t = found->second;
  const Box box = {{begin.begin(), begin.end()}, {end.begin(), end.end()}};
  if (!is_inside(box, t.shape))
    throw Error("{}: '{}' has the shape {}, expected another one with lora.rank", folder.string(),
                name, to_string(t.shape));
  std::vector<float> values(box.elements());
  copy_box(box, whole_box(t.shape), reinterpret_cast<const std::byte*>(t.values.data()), box,
           reinterpret_cast<std::byte*>(values.data()), sizeof(float));
  convert(reinterpret_cast<const std::byte*>(values.data()), DType::kF32,
          static_cast<std::byte*>(out.data), out.dtype, box.elements());
}

StoredAdapters read_adapters(const Path& path, const model::ModelConfig& model) {
  if (is_peft_folder(path)) return read_peft(path, model);
  StoredAdapters adapters = read_from_checkpoint(path, model);
  require_finite(adapters);
  return adapters;
}

void require_no_adapters(const CheckpointReader& base) {
  if (!has_adapters(base)) return;
  throw Error(
      "{}: has adapters of its own, to which others cannot be added. Merge them into the weights "
      "(`tessera checkpoint merge`), or use the model that they were trained on.",
      base.folder().string());
}

std::vector<model::HfTensor> adapter_tensors(const model::AdapterModule& m,
                                             const AdapterSettings& settings, const Path& folder) {
  const int64_t rank = settings.rank;
  const int64_t matrices = std::max<int64_t>(m.experts, 1);
  const int64_t most = std::min(m.a(1).shape.elements(), m.b(1).shape.elements()) / matrices;
  if (rank > most)
    throw Error(
        "{}: the rank is {}, expected at most {}, the smaller side of {} in this model. Use the "
        "model that the adapters were trained on, or merge them into it with PEFT "
        "(merge_and_unload).",
        folder.string(), rank, most, m.module());
  std::vector<model::HfTensor> all = {m.a(rank), m.b(rank)};
  if (settings.dora()) all.push_back(m.magnitude());
  return all;
}

void require_finite(const StoredAdapters& adapters) {
  for (const auto& [name, t] : adapters.tensors)
    if (!std::all_of(t.values.begin(), t.values.end(), [](float x) { return std::isfinite(x); }))
      throw NumericError("{}: '{}' contains NaN or infinity. Use other adapters.",
                         adapters.folder.string(), name);
}

}  // namespace tessera::checkpoint

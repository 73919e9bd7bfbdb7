// Reads and writes PEFT folders. The modules of the model (model/adapter_modules.h) give the names
// and the order of dimensions on both sides, so one routine converts A, B and magnitudes.
#include "checkpoint/peft.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>

#include "base/config.h"
#include "base/error.h"
#include "base/shape.h"
#include "base/tree.h"
#include "checkpoint/convert.h"
#include "checkpoint/durable.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/stored_model.h"
#include "model/adapter_modules.h"
#include "model/family.h"

namespace tessera::checkpoint {
namespace {

constexpr const char* kWeightsFile = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";

// ---- The tensors on both sides

// The parameters of experts that have adapters, the same in all layers. PEFT wraps the experts'
// module once per parameter: if both have adapters, those of gate_up_proj belong to the inner
// wrapper, base_layer.
struct WrappedExperts {
  bool up = false, down = false;
  void add(const model::AdapterModule& m) {
    if (m.experts > 0) (is_up(m) ? up : down) = true;
  }
  static bool is_up(const model::AdapterModule& m) { return m.module().ends_with("gate_up_proj"); }

  // Returns the name of the module in PEFT to which the adapter belongs.
  std::string owner(const model::AdapterModule& m) const {
    std::string module = m.module();
    if (m.experts == 0) return module;
    module.erase(module.rfind('.'));
    return is_up(m) && down ? module + ".base_layer" : module;
  }
};

// Returns the tensors of the adapters of one module, with names as in the file.
std::vector<model::HfTensor> tensors_of(const model::AdapterModule& m,
                                        const WrappedExperts& experts,
                                        const AdapterSettings& settings, const Path& folder) {
  std::vector<model::HfTensor> all = adapter_tensors(m, settings, folder);
  for (model::HfTensor& t : all)
    t.theirs = std::string(kPrefix) + experts.owner(m) + t.theirs.substr(m.module().size());
  return all;
}

bool names(const std::string& target, const model::AdapterModule& m) {
  if (target == "all-linear") return m.experts == 0;
  return model::names_module(target, m.module());
}

bool is_target(const AdapterSettings& settings, const model::AdapterModule& m) {
  return std::any_of(settings.targets.begin(), settings.targets.end(),
                     [&](const std::string& t) { return names(t, m); });
}

// Returns a fault for each target that names no module of the model.
std::vector<std::string> unknown_targets(const AdapterSettings& settings,
                                         const std::vector<model::AdapterModule>& modules) {
  std::vector<std::string> faults;
  for (const std::string& target : settings.targets)
    if (std::none_of(modules.begin(), modules.end(),
                     [&](const model::AdapterModule& m) { return names(target, m); }))
      faults.push_back(fmt::format(
          "'{}' is not a module, or a parameter of experts, of this model that can have adapters",
          target));
  return faults;
}

// Returns the name of the base model in a folder's settings, for messages; empty if it has none.
std::string base_of(const Path& folder) {
  const Path path = folder / kPeftSettingsFile;
  const Tree config = parse_json(read_file(path), path.string());
  const Tree* const base = config.find("base_model_name_or_path");
  const bool is_given = base != nullptr && base->as_string() && !base->as_string()->empty();
  return is_given ? " (base_model_name_or_path is " + to_json(*base) + ")" : "";
}

// Copies the rows of a PEFT tensor to the box of our tensor that they fill.
void put(const model::HfTensor& t, const SafetensorsFile& file, const SafetensorsEntry& entry,
         StoredAdapters::Tensor& to) {
  const int64_t n = t.view.elements(), size = size_of(*entry.dtype);
  const std::span<const std::byte> bytes =
      file.bytes(entry).subspan(t.their_begin() * size, n * size);
  std::vector<float> part(n);
  transposed(bytes, *entry.dtype, t.view, t.axes, DType::kF32)(
      0, n, reinterpret_cast<std::byte*>(part.data()));
  const Box box = {t.begin, t.end()};
  copy_box(box, box, reinterpret_cast<const std::byte*>(part.data()), whole_box(to.shape),
           reinterpret_cast<std::byte*>(to.values.data()), sizeof(float));
}

const SafetensorsEntry* find_entry(const SafetensorsFile& file, const std::string& name) {
  const auto& entries = file.entries();
  const auto at = std::find_if(entries.begin(), entries.end(),
                               [&](const SafetensorsEntry& e) { return e.name == name; });
  return at == entries.end() ? nullptr : &*at;
}

bool has_any(const SafetensorsFile& file, const std::vector<model::HfTensor>& tensors) {
  return std::ranges::any_of(
      tensors, [&](const model::HfTensor& t) { return find_entry(file, t.theirs) != nullptr; });
}

// Adds a fault if the file has no such tensor, or one of another shape or type.
const SafetensorsEntry* checked_entry(const SafetensorsFile& file, const model::HfTensor& t,
                                      std::vector<std::string>& faults) {
  const SafetensorsEntry* const entry = find_entry(file, t.theirs);
  if (entry == nullptr) {
    faults.push_back(fmt::format("{}: missing, expected {}", t.theirs, to_string(t.their_shape)));
    return nullptr;
  }
  if (entry->shape == t.their_shape && entry->dtype && is_float(*entry->dtype)) return entry;
  faults.push_back(fmt::format("{}: is {} {}, expected {} in a floating-point type", t.theirs,
                               entry->type, to_string(entry->shape), to_string(t.their_shape)));
  return nullptr;
}

// Adds adapters of a module of multi-token prediction, which transformers' models do not have. They
// change nothing at first: B is zero, and A is the A of the last layer.
void add_initial(const model::AdapterModule& m, const std::vector<model::HfTensor>& tensors,
                 int64_t layers, StoredAdapters& out) {
  const std::string name = m.ours();
  const auto last = out.tensors.find(
      fmt::format("layer{}{}{}", layers - 1, name.substr(name.find('.')), model::kLoraA));
  for (const model::HfTensor& t : tensors) {
    StoredAdapters::Tensor& to = out.tensors[t.ours];
    to = {t.shape, std::vector<float>(t.shape.elements())};
    if (t.ours.ends_with(model::kLoraA) && last != out.tensors.end() &&
        last->second.shape == t.shape)
      to.values = last->second.values;
  }
}

// ---- Export

// In models with experts, PEFT reads a target module with one of these names as all experts, even
// if it belongs to a dense or shared MLP. So their weights are given as target parameters.
bool is_read_as_experts(const std::vector<model::AdapterModule>& all, std::string_view module) {
  constexpr std::string_view kNames[] = {"gate_proj", "up_proj", "down_proj"};
  const std::string_view name = module.substr(module.rfind('.') + 1);
  return !model::is_of_experts(module) && std::ranges::find(kNames, name) != std::end(kNames) &&
         std::ranges::any_of(all, [](const model::AdapterModule& m) { return m.experts > 0; });
}

// Returns the shortest names that name the modules with adapters and no other module of the model.
std::vector<std::string> module_names(const std::vector<model::AdapterModule>& all,
                                      const std::set<std::string>& adapted) {
  std::set<std::string> names;
  for (const std::string& module : adapted) {
    if (model::is_of_experts(module) || is_read_as_experts(all, module)) continue;
    const std::string_view full = model::after_layer(module);
    std::string_view name = full.substr(full.rfind('.') + 1);
    const auto names_others = [&] {
      return std::any_of(all.begin(), all.end(), [&](const model::AdapterModule& m) {
        return model::names_module(name, m.module()) && !adapted.contains(m.module());
      });
    };
    if (names_others()) name = full;
    names.emplace(name);
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> parameter_names(const std::vector<model::AdapterModule>& all,
                                         const std::set<std::string>& adapted) {
  std::set<std::string> names;
  for (const std::string& module : adapted) {
    const std::string name(model::after_layer(module));
    if (model::is_of_experts(module)) names.insert(name);
    if (is_read_as_experts(all, module)) names.insert(name + ".weight");
  }
  return {names.begin(), names.end()};
}

// The names for PEFT's target_modules and target_parameters.
struct TargetLists {
  std::vector<std::string> modules, parameters;
};

Tree config_of(const AdapterSettings& settings, const TargetLists& targets, const std::string& base,
               const model::ModelConfig& model) {
  const model::ModelFamily& family = model::rule_of(model.family);
  Tree t = Tree::object();
  t.set("peft_type", Tree(std::string("LORA")));
  t.set("task_type", Tree(std::string(family.has_encoder ? "SEQ_2_SEQ_LM" : "CAUSAL_LM")));
  t.set("base_model_name_or_path", base.empty() ? Tree() : Tree(base));
  t.set("inference_mode", Tree(true));
  t.set("r", Tree(settings.rank));
  const bool whole = settings.alpha == std::floor(settings.alpha) && settings.alpha < 1e9;
  t.set("lora_alpha", whole ? Tree(static_cast<int64_t>(settings.alpha)) : Tree(settings.alpha));
  t.set("lora_dropout", Tree(0.0));
  t.set("target_modules", write_value(targets.modules));
  if (!targets.parameters.empty()) t.set("target_parameters", write_value(targets.parameters));
  t.set("use_rslora", Tree(settings.rslora()));
  t.set("use_dora", Tree(settings.dora()));
  t.set("bias", Tree(std::string("none")));
  // transformers' GPT-2 has weights [in, out].
  t.set("fan_in_fan_out", Tree(model.family == model::Family::kGpt2));
  t.set("init_lora_weights", Tree(true));
  return t;
}

// Fills rows of a PEFT tensor from our tensor.
void take(CheckpointReader& reader, const model::HfTensor& t, std::vector<float>& to) {
  const Shape part = t.part();
  std::vector<float> ours(part.elements());
  reader.read(t.ours, t.begin, t.end(), {ours.data(), DType::kF32, part});
  const std::span<const std::byte> bytes = std::as_bytes(std::span(ours));
  transposed(bytes, DType::kF32, part, model::inverse(t.axes), DType::kF32)(
      0, part.elements(), reinterpret_cast<std::byte*>(to.data() + t.their_begin()));
}

// The tensors of an export, in memory.
struct PeftTensors {
  std::map<std::string, StoredAdapters::Tensor> all;
  std::map<std::string, std::string> source;  // our weight for each PEFT tensor, by the PEFT name
};

void require_stored(const CheckpointReader& reader, const model::HfTensor& t) {
  const StoredTensor* const stored = reader.find(t.ours);
  if (stored == nullptr || stored->shape != t.shape)
    throw Error("{}: {} is {}, expected {}", reader.folder().string(), t.ours,
                stored == nullptr ? std::string("missing") : to_string(stored->shape),
                to_string(t.shape));
}

// Adds the adapter of a module. PEFT has one A per matrix. If several of our weights are rows of
// one matrix, their A must be equal; each fills its own rows of B and of the magnitudes.
void add_module(CheckpointReader& reader, const model::AdapterModule& m,
                const WrappedExperts& experts, const AdapterSettings& settings, PeftTensors& out) {
  for (const model::HfTensor& t : tensors_of(m, experts, settings, reader.folder())) {
    require_stored(reader, t);
    const auto [at, is_new] = out.source.emplace(t.theirs, t.ours);
    StoredAdapters::Tensor& to = out.all[t.theirs];
    if (is_new) to = {t.their_shape, std::vector<float>(t.their_shape.elements())};
    const std::vector<float> before = to.values;
    take(reader, t, to.values);
    const bool whole = t.view.elements() == t.their_shape.elements();
    if (!is_new && whole && to.values != before)
      throw Error(
          "{}: {} and {} are adapters of {}, which has one adapter in PEFT, and they differ. Merge "
          "the adapters (`tessera checkpoint merge`) and export the result, or train with "
          "lora.targets without one of them.",
          reader.folder().string(), at->second, t.ours, m.module());
  }
}

}  // namespace

StoredAdapters read_peft(const Path& folder, const model::ModelConfig& model) {
  StoredAdapters out;
  out.folder = folder;
  out.settings = read_peft_settings(folder);
  std::error_code error;
  if (!std::filesystem::exists(folder / kWeightsFile, error))
    throw Error("{}: has no {}. Save the adapters with safe_serialization=True.", folder.string(),
                kWeightsFile);
  const SafetensorsFile file(folder / kWeightsFile);
  const std::vector<model::AdapterModule> modules = model::adapter_modules(model);
  std::vector<std::string> faults = unknown_targets(out.settings, modules);
  WrappedExperts experts;
  for (const model::AdapterModule& m : modules)
    if (is_target(out.settings, m)) experts.add(m);
  std::set<std::string> used;
  for (const model::AdapterModule& m : modules) {
    if (!is_target(out.settings, m)) continue;
    const std::vector<model::HfTensor> tensors = tensors_of(m, experts, out.settings, folder);
    if (model::is_of_prediction(m.tensor.ours) && !has_any(file, tensors) && !out.settings.dora()) {
      add_initial(m, tensors, model.layers, out);
      continue;
    }
    for (const model::HfTensor& t : tensors) {
      used.insert(t.theirs);
      const SafetensorsEntry* const entry = checked_entry(file, t, faults);
      if (entry == nullptr) continue;
      StoredAdapters::Tensor& to = out.tensors[t.ours];
      if (to.values.empty()) to = {t.shape, std::vector<float>(t.shape.elements())};
      put(t, file, *entry, to);
    }
  }
  for (const SafetensorsEntry& e : file.entries())
    if (!used.contains(e.name)) faults.push_back(e.name + ": not an adapter of this model");
  faults.erase(std::unique(faults.begin(), faults.end()), faults.end());
  if (!faults.empty() || out.tensors.empty())
    throw Error(
        "{}: its tensors are not the adapters of {} in this model{}. Use the model that they were "
        "trained on:{}",
        (folder / kWeightsFile).string(), to_json(write_value(out.settings.targets)),
        base_of(folder), listed_faults(faults));
  require_finite(out);
  return out;
}

int64_t import_peft(const Path& base, const Path& folder, const Path& out,
                    const std::string& version) {
  CheckpointReader reader(base);
  require_no_adapters(reader);
  const StoredAdapters adapters = read_peft(folder, stored_model(reader));
  std::error_code error;
  if (std::filesystem::exists(out, error) && !std::filesystem::is_empty(out, error))
    throw Error("{}: exists already. Choose another path, or remove it first.", out.string());
  CheckpointWriter writer(out, {}, Existing::kIsKept);
  for (const StoredTensor& t : reader.tensors()) {
    if (t.name.find('|') != std::string::npos) continue;
    StateTensor weight;
    weight.name = t.name;
    weight.shape = t.shape;
    writer.add_streamed(weight, [&](int64_t first, int64_t count, std::byte* bytes) {
      auto* w = reinterpret_cast<float*>(bytes);
      for (const Box& box : boxes_of_range(t.shape, first, first + count)) {
        reader.read(t.name, box.begin, box.end, {w, DType::kF32, box.extents()});
        w += box.elements();
      }
    });
  }
  for (const auto& [name, t] : adapters.tensors) {
    StateTensor weight;
    weight.name = name;
    weight.shape = t.shape;
    // A view for reading only.
    weight.data = {const_cast<float*>(t.values.data()), DType::kF32, t.shape};
    writer.add(weight);
  }
  CheckpointHeader header = reader.header();
  header.version = version;
  header.step = header.tokens = 0;
  AdapterSettings settings = adapters.settings;
  header.config.set("lora", tessera::to_tree(settings));
  writer.commit(header);
  const auto is_b = [](const auto& t) { return t.first.ends_with(model::kLoraB); };
  return std::count_if(adapters.tensors.begin(), adapters.tensors.end(), is_b);
}

PeftExport export_peft(CheckpointReader reader, const Path& folder, const std::string& base) {
  std::error_code error;
  if (std::filesystem::exists(folder, error) && !std::filesystem::is_empty(folder, error))
    throw Error("{}: exists already. Choose another path, or remove it first.", folder.string());
  if (!has_adapters(reader))
    throw Error(
        "{}: contains no adapters, expected a run with lora.rank. Export the model without "
        "--adapter.",
        reader.folder().string());
  require_logits(reader);
  const AdapterSettings settings = adapter_settings(reader);
  const model::ModelConfig model = stored_model(reader);
  require_adapters_of_parts(reader, model);
  const std::vector<model::AdapterModule> modules = model::adapter_modules(model);
  PeftTensors tensors;
  PeftExport made;
  const auto has_adapter = [&](const model::AdapterModule& m) {
    return reader.find(m.ours() + std::string(model::kLoraA)) != nullptr;
  };
  WrappedExperts experts;
  for (const model::AdapterModule& m : modules)
    if (has_adapter(m)) experts.add(m);
  std::set<std::string> adapted;
  for (const model::AdapterModule& m : modules) {
    if (!has_adapter(m)) continue;
    if (settings.dora() && is_read_as_experts(modules, m.module()))
      throw Error(
          "{}: has a DoRA adapter of {}. PEFT reads modules of this name in a model with experts "
          "as the experts, which cannot have DoRA. Merge the adapters (`tessera checkpoint "
          "merge`) "
          "and export the result.",
          reader.folder().string(), m.module());
    add_module(reader, m, experts, settings, tensors);
    adapted.insert(m.module());
  }
  std::vector<SafetensorsPlan> plans;
  std::vector<const StoredAdapters::Tensor*> values;
  for (const auto& [name, t] : tensors.all) {
    plans.push_back({name, DType::kF32, t.shape});
    values.push_back(&t);
    made.parameters += t.shape.elements();
  }
  made.adapters = std::ssize(adapted);
  PartFolder part(folder.has_filename() ? folder : folder.parent_path());
  write_safetensors(part.path() / kWeightsFile, plans, [&](size_t i) -> FillPiece {
    return [t = values[i]](int64_t first, int64_t count, std::byte* out) {
      std::memcpy(out, t->values.data() + first, static_cast<size_t>(count) * sizeof(float));
    };
  });
  write_file(part.path() / kPeftSettingsFile,
             to_json(config_of(settings,
                               {module_names(modules, adapted), parameter_names(modules, adapted)},
                               base, model),
                     2) +
                 "\n");
  part.put();
  return made;
}

}  // namespace tessera::checkpoint

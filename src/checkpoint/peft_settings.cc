// Reads adapter_config.json of a PEFT folder: the settings that Tessera computes. Others are
// rejected by name.
#include <algorithm>
#include <cmath>

#include "base/config.h"
#include "base/error.h"
#include "base/tree.h"
#include "checkpoint/peft.h"
#include "model/adapter_modules.h"

namespace tessera::checkpoint {
namespace {

// Settings that change what is computed, and why Tessera does not read them. They may be absent or
// empty (null, false, "", [] or {}).
struct Unsupported {
  std::string_view key, why;
};
constexpr Unsupported kUnsupported[] = {
    {"lora_bias", "Tessera's adapters have no biases"},
    {"modules_to_save", "Tessera does not train other weights in addition to adapters"},
    {"rank_pattern", "Tessera's adapters have one rank"},
    {"alpha_pattern", "Tessera's adapters have one alpha"},
    {"layers_to_transform", "Tessera adapts all layers"},
    {"exclude_modules", "Tessera needs the modules with adapters in target_modules"},
    {"trainable_token_indices", "Tessera does not train tokens in addition to adapters"},
    {"layer_replication", "Tessera does not replicate layers"},
};

// Settings that are read, or that do not change what adapters compute.
constexpr std::string_view kKnown[] = {"peft_type",
                                       "bias",
                                       "r",
                                       "lora_alpha",
                                       "target_modules",
                                       "target_parameters",
                                       "use_rslora",
                                       "use_dora",
                                       "task_type",
                                       "base_model_name_or_path",
                                       "revision",
                                       "inference_mode",
                                       "lora_dropout",
                                       "fan_in_fan_out",
                                       "init_lora_weights",
                                       "layers_pattern",
                                       "auto_mapping",
                                       "peft_version",
                                       "runtime_config",
                                       "loftq_config",
                                       "eva_config",
                                       "corda_config",
                                       "lora_ga_config",
                                       "megatron_config",
                                       "megatron_core",
                                       "qalora_group_size",
                                       "ensure_weight_tying"};

// Initializations that leave the weights of the base model as they are. PiSSA, OLoRA, CorDA and
// LoftQ subtract the initial B A from them when PEFT loads the adapters.
constexpr std::string_view kPlainInitial[] = {"gaussian", "eva", "orthogonal"};

[[noreturn]] void refuse(const std::string& source, std::string_view key, const std::string& value,
                         std::string_view why) {
  throw Error(
      "{}: has {} = {}, but {}. Merge the adapters with PEFT (merge_and_unload) and import the "
      "result.",
      source, key, value, why);
}

bool is_null(const Tree* t) {
  return t == nullptr || std::holds_alternative<std::monostate>(t->value);
}

bool is_empty(const Tree& t) {
  const std::string text = to_json(t);
  constexpr std::string_view kEmpty[] = {"null", "false", "\"\"", "[]", "{}"};
  return std::find(std::begin(kEmpty), std::end(kEmpty), text) != std::end(kEmpty);
}

// Throws Error for settings that Tessera does not compute, and for unknown ones.
void require_supported(const Tree& config, const std::string& source) {
  const auto require = [&](const char* key, const char* expected, const char* why) {
    const Tree* const found = config.find(key);
    const bool same = found && found->as_string() && *found->as_string() == expected;
    if (found != nullptr && !same) refuse(source, key, to_json(*found), why);
  };
  require("peft_type", "LORA", "Tessera reads LoRA adapters");
  require("bias", "none", "Tessera does not train biases in addition to adapters");
  const Tree* const initial = config.find("init_lora_weights");
  if (initial != nullptr && initial->as_string() &&
      std::find(std::begin(kPlainInitial), std::end(kPlainInitial), *initial->as_string()) ==
          std::end(kPlainInitial))
    refuse(source, "init_lora_weights", to_json(*initial),
           "this initialization may change the weights of the base model, too");
  for (const auto& [name, value] : *config.as_members()) {
    const std::string_view key = name;
    if (std::find(std::begin(kKnown), std::end(kKnown), key) != std::end(kKnown) || is_empty(value))
      continue;
    const auto found = std::find_if(std::begin(kUnsupported), std::end(kUnsupported),
                                    [&](const Unsupported& u) { return u.key == key; });
    refuse(source, key, to_json(value),
           found == std::end(kUnsupported) ? "Tessera does not read this setting" : found->why);
  }
}

template <class T>
T value_of(const Tree& config, const char* key, T otherwise, const std::string& source) {
  const Tree* const found = config.find(key);
  if (is_null(found)) return otherwise;
  T value{};
  read_value(*found, value, {source, key});
  return value;
}

std::vector<std::string> names_in(const Tree& config, const char* key, const std::string& source) {
  return value_of(config, key, std::vector<std::string>(), source);
}

void add_name(std::vector<std::string>& names, std::string name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
}

// Returns the names in target_modules. PEFT writes one name per layer for a small model:
// "model.layers.3.self_attn.q_proj". Tessera adapts all layers, so a layer that is not named lacks
// its tensors, which read_peft() reports.
std::vector<std::string> modules_in(const Tree& config, const std::string& source) {
  const Tree* const targets = config.find("target_modules");
  if (is_null(targets) || is_empty(*targets)) return {};
  if (targets->as_string() != nullptr) {
    if (*targets->as_string() == "all-linear") return {"all-linear"};
    refuse(source, "target_modules", to_json(*targets),
           "Tessera reads a list of names or all-linear, not a regular expression");
  }
  std::vector<std::string> modules;
  for (const std::string& name : names_in(config, "target_modules", source))
    add_name(modules, std::string(model::after_layer(name)));
  return modules;
}

// Returns the names in target_parameters. PEFT matches the last components of a parameter's name,
// so its "down_proj" is our "experts.down_proj", and "mlp.up_proj.weight" is the module
// mlp.up_proj.
std::vector<std::string> parameters_in(const Tree& config, const std::string& source) {
  std::vector<std::string> parameters;
  for (const std::string& name : names_in(config, "target_parameters", source)) {
    std::string_view own = model::after_layer(name);
    constexpr std::string_view kWeight = ".weight";
    if (own.ends_with(kWeight)) own.remove_suffix(kWeight.size());
    add_name(parameters,
             own.find('.') == own.npos ? "experts." + std::string(own) : std::string(own));
  }
  return parameters;
}

std::vector<std::string> targets_of(const Tree& config, const std::string& source) {
  std::vector<std::string> targets = modules_in(config, source);
  for (std::string& name : parameters_in(config, source)) add_name(targets, std::move(name));
  if (targets.empty())
    throw Error(
        "{}: has neither target_modules nor target_parameters, expected a list of names such as "
        "[q_proj, v_proj]",
        source);
  return targets;
}

}  // namespace

bool is_peft_folder(const Path& folder) {
  std::error_code error;
  return std::filesystem::exists(folder / kPeftSettingsFile, error);
}

AdapterSettings read_peft_settings(const Path& folder) {
  const Path path = folder / kPeftSettingsFile;
  const std::string source = path.string();
  if (!is_peft_folder(folder))
    throw Error("{}: has no {}, expected a folder as written by save_pretrained of PEFT",
                folder.string(), kPeftSettingsFile);
  const Tree config = parse_json(read_file(path), source);
  if (config.as_members() == nullptr) throw Error("{}: is not a JSON object", source);
  require_supported(config, source);
  AdapterSettings s;
  s.rank = value_of(config, "r", int64_t{8}, source);
  s.alpha = value_of(config, "lora_alpha", 8.0, source);
  if (value_of(config, "use_rslora", false, source)) s.scaling = "rslora";
  if (value_of(config, "use_dora", false, source)) s.kind = "dora";
  s.targets = targets_of(config, source);
  if (s.rank < 1 || !(s.alpha > 0) || !std::isfinite(s.alpha))
    throw Error("{}: has r = {} and lora_alpha = {}, expected both above 0", source, s.rank,
                s.alpha);
  return s;
}

}  // namespace tessera::checkpoint

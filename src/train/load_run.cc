// Reads a run file from disk. If it has no model section, the model is that of checkpoint.from, and
// the settings of adapters are those of lora.from.
#include "train/load_run.h"

#include <algorithm>

#include "base/config.h"
#include "base/error.h"
#include "base/renamed_keys.h"
#include "base/shipped_configs.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folders.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/merge.h"
#include "checkpoint/peft.h"
#include "checkpoint/stored_model.h"
#include "data/tokenizer.h"
#include "data/tokenizer_json.h"
#include "model/family.h"
#include "train/run_folder.h"

namespace tessera::train {
namespace {

constexpr int64_t kMostRunFileBytes = int64_t{16} << 20;

// Returns the settings of the adapters in lora.from. If it is not there, those of the run's own
// checkpoint, with which the run resumes without the folder.
checkpoint::AdapterSettings peft_settings(const config::RunConfig& config) {
  try {
    return checkpoint::read_peft_settings(config.lora.from);
  } catch (const Error&) {
    const checkpoint::LatestCheckpoint own =
        checkpoint::find_latest(Path(config.run.directory) / "checkpoints");
    if (!own.found) throw;
    return checkpoint::adapter_settings(checkpoint::CheckpointReader(own.found->path));
  }
}

// Sets the keys of `lora` that are not given to the settings of the PEFT folder lora.from. Throws
// Error if a given key differs from them.
void apply_peft_settings(config::RunConfig& config) {
  if (config.lora.from.empty()) return;
  const checkpoint::AdapterSettings peft = peft_settings(config);
  std::string different;
  // The order of targets has no meaning.
  checkpoint::AdapterSettings there_sorted = peft;
  config::LoraSection here_sorted = config.lora;
  for (std::vector<std::string>* targets : {&there_sorted.targets, &here_sorted.targets})
    std::sort(targets->begin(), targets->end());
  const Tree there_all = tessera::to_tree(there_sorted);
  const Tree here_all = tessera::to_tree(here_sorted);
  for (const auto& [key, value] : *there_all.as_members()) {
    const std::string path = "lora." + key;
    if (path == "lora.from" || path == "lora.quantize") continue;  // not a setting of adapters
    if (!config.places.contains(path)) continue;
    const std::string there = to_json(value), here = to_json(*here_all.find(key));
    if (there != here)
      different += fmt::format("\n  {} is {} there, {} in this run", path, there, here);
  }
  if (!different.empty())
    throw Error(
        "{}: lora.from = {} has other settings than this run:{}\n  Remove these keys, so that they "
        "default to those of the folder.",
        config.source, config.lora.from, different);
  if (peft.dora() && config.objective.reference == config::ReferenceSource::kAdaptersOff)
    throw Error(
        "{}: objective.reference = adapters_off requires lora.kind = lora, but the adapters of "
        "lora.from = {} are of the kind dora. Use precomputed.",
        config.source, config.lora.from);
  config.lora.rank = peft.rank;
  config.lora.alpha = peft.alpha;
  config.lora.targets = peft.targets;
  config.lora.kind = peft.dora() ? compile::AdapterKind::kDora : compile::AdapterKind::kLora;
  config.lora.scaling =
      peft.rslora() ? compile::AdapterScaling::kRslora : compile::AdapterScaling::kRank;
}

// Throws Error for the name of a run file that does not exist and can be a misspelt recipe: a name
// without a folder and without the ending of a file.
void reject_unknown_recipe(const std::string& name) {
  if (name.empty() || name.find('/') != name.npos) return;
  for (const std::string_view ending : {".yaml", ".yml", ".json"})
    if (name.ends_with(ending)) return;
  std::vector<std::string> recipes;
  for (const ShippedConfig& c : shipped_configs())
    if (c.folder == "recipes") recipes.emplace_back(c.name);
  const std::string guess = nearest(name, recipes);
  throw Error(
      "{}: cannot be opened: there is neither a file nor a recipe with this name.{} Recipes: {}",
      name, guess.empty() ? "" : fmt::format(" Did you mean '{}'?", guess),
      shipped_names("recipes"));
}

}  // namespace

RunFile read_run_file(const Path& path) {
  const std::string source = path.string();
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) {
    if (const ShippedConfig* recipe = shipped_config("recipes", source)) {
      const std::string file = fmt::format("recipes/{}.yaml", recipe->name);
      return {parse_yaml(std::string(recipe->text), file), file};
    }
    reject_unknown_recipe(source);
  }
  const std::string text = read_pipe_or_file(path, kMostRunFileBytes);
  Tree tree = parse_yaml(text, source);
  // The run.yaml of a run directory may be of an earlier version, which a resume must still read.
  if (text.starts_with(kRunFileMark)) tree = with_present_names(std::move(tree));
  return {std::move(tree), source};
}

config::RunConfig load_run(const Path& path, std::span<const std::string> overrides) {
  return load_run(read_run_file(path), overrides);
}

config::RunConfig load_run(const RunFile& file, std::span<const std::string> overrides) {
  config::RunConfig config = config::read_run(file.tree, file.source, overrides);
  const bool has_model =
      config.places.contains("model.preset") || config.places.contains("model.layers");
  if (!has_model && !config.checkpoint.from.empty()) {
    const model::ModelConfig model = origin_model(config);
    // The file is parsed again on top of that model, so that the given keys override it.
    config = config::read_run(file.tree, file.source, overrides, &model);
  }
  apply_peft_settings(config);
  return config;
}

// Resolves the checkpoint that supplies the model and the tokenizer of a run.
Path origin_checkpoint(const config::RunConfig& config) {
  const std::string& from = config.checkpoint.from;
  try {
    return checkpoint::resolve_checkpoint(from);
  } catch (const Error& e) {
    // A run that has checkpoints of its own no longer needs the one that it started from.
    const checkpoint::LatestCheckpoint own =
        checkpoint::find_latest(Path(config.run.directory) / "checkpoints");
    if (own.found) return own.found->path;
    throw Error("checkpoint.from: {}", e.what());
  }
}

model::ModelConfig origin_model(const config::RunConfig& config) {
  const checkpoint::CheckpointReader reader(origin_checkpoint(config));
  if (config.objective.kind != config::ObjectiveKind::kReward) checkpoint::require_logits(reader);
  model::ModelConfig model = checkpoint::stored_model(reader);
  model.preset.clear();
  return model;
}

Path tokenizer_of_run(const config::RunConfig& config) {
  if (!config.data.tokenizer.empty()) return data::tokenizer_file(config.data.tokenizer);
  if (config.checkpoint.from.empty())
    throw Error(
        "{}: data.tokenizer is not given. Name a tokenizer.json or SentencePiece model, or a "
        "checkpoint that holds one (checkpoint.from).",
        config.source);
  return data::tokenizer_file(origin_checkpoint(config));
}

// Some classes, such as Qwen2Tokenizer, set their own rule for splitting text into words and ignore
// the one in tokenizer.json.
bool splits_words_otherwise(const std::string& tokenizer, const std::string& source,
                            const model::ModelConfig& model) {
  return model::rule_of(model.family).hf_overrides_pretokenizer &&
         data::is_tokenizer_json(tokenizer) &&
         data::read_tokenizer_json(tokenizer, source).words != data::PretokenizerKind::kQwen2;
}

std::string word_split_warning(const std::string& tokenizer, const std::string& source,
                               const model::ModelConfig& model) {
  if (!splits_words_otherwise(tokenizer, source, model)) return {};
  return fmt::format(
      "the tokenizer splits text into words by its tokenizer.json, but AutoTokenizer of "
      "transformers splits it as the published {} does, so its ids differ. With transformers, use "
      "PreTrainedTokenizerFast",
      name_of_entry(model.family));
}

}  // namespace tessera::train

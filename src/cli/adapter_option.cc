#include "cli/adapter_option.h"

#include <filesystem>

#include "base/error.h"
#include "checkpoint/peft.h"
#include "checkpoint/stored_model.h"
#include "cli/checkpoint_file.h"

namespace tessera::cli {
namespace {

constexpr const char* kNoAdapter = "none";

// Returns the PEFT folder, or the checkpoint of a run, that a value of --adapter names.
Path adapter_folder(const std::string& value) {
  if (value.empty())
    throw Error(
        "--adapter: the value is empty, expected a PEFT folder, a run that was trained "
        "with lora.rank, or {}.",
        kNoAdapter);
  if (checkpoint::is_peft_folder(value)) return value;
  std::error_code error;
  if (!std::filesystem::exists(value, error))
    throw Error(
        "--adapter {}: there is no such folder. Expected a PEFT folder (adapter_config.json and "
        "adapter_model.safetensors), a run that was trained with lora.rank, or {}.",
        value, kNoAdapter);
  try {
    return choose_checkpoint(value);
  } catch (const Error& e) {
    throw Error("--adapter {}: is not a PEFT folder, since it has no adapter_config.json. {}",
                value, e.what());
  }
}

}  // namespace

void add_adapter(Arguments& arguments, std::string& adapter) {
  arguments.option(adapter, "--adapter", "DIR",
                   "LoRA adapters over the model: a PEFT folder, or a run trained with lora; none: "
                   "the model itself");
}

void add_adapters(Arguments& arguments, std::vector<std::string>& adapters) {
  arguments.option(adapters, "--adapter", "DIR",
                   "LoRA adapters over the model: a PEFT folder, or a run trained with lora; none: "
                   "the model itself (repeatable)");
}

std::vector<NamedAdapters> open_adapters(const std::vector<std::string>& values,
                                         const checkpoint::CheckpointReader& base) {
  if (values.empty()) return {NamedAdapters()};
  if (values == std::vector<std::string>{kNoAdapter} && checkpoint::has_adapters(base))
    throw Error(
        "{}: has adapters of its own, which --adapter {} does not remove. Use the model that they "
        "were trained on.",
        base.folder().string(), kNoAdapter);
  checkpoint::require_no_adapters(base);
  const model::ModelConfig model = checkpoint::stored_model(base);
  std::vector<NamedAdapters> all;
  for (const std::string& value : values) {
    NamedAdapters& named = all.emplace_back();
    named.name = value;
    if (value != kNoAdapter)
      named.adapters = std::make_shared<const checkpoint::StoredAdapters>(
          checkpoint::read_adapters(adapter_folder(value), model));
  }
  return all;
}

std::string adapter_label(const std::string& name) {
  return name.empty() ? "" : "  adapter " + name;
}

void use_adapter(const std::string& value, checkpoint::CheckpointReader& base) {
  if (value.empty()) return;
  base.use_adapters(open_adapters({value}, base)[0].adapters);
}

}  // namespace tessera::cli

#include "train/trained_part.h"

#include <fmt/format.h>

#include <algorithm>

#include "compile/graph/name_patterns.h"
#include "model/adapter_modules.h"
#include "model/weight_names.h"

namespace tessera::train {
size_t optimizer_number(const config::RunConfig& config, std::string_view weight) {
  const std::optional<size_t> group =
      config::group_of(config.optimizer, model::without_layer(weight));
  return group ? *group + 1 : 0;
}

config::OptimizerSection optimizer_of(const config::RunConfig& config, std::string_view weight) {
  const config::OptimizerSection& o = config.optimizer;
  const size_t number = optimizer_number(config, weight);
  if (number == 0) return o;
  const config::OptimizerGroupSection& group = o.groups[number - 1];
  config::OptimizerSection own = config::settings_of(group, o);
  own.learning_rate *= group.learning_rate_multiplier;
  return own;
}

bool trains(const config::RunConfig& config, std::string_view weight) {
  if (config.lora.rank > 0)
    return weight.find(".lora_") != std::string_view::npos || weight == model::kScoreHead;
  const auto& frozen = config.optimizer.freeze;
  return !compile::matches_any(frozen, model::without_layer(weight));
}

// Returns ", frozen weights rounded to bf16" for a run of adapters that holds in 16 bits the
// weights that it does not train, which a merged model then has; empty in f32.
std::string frozen_part(const config::RunConfig& config) {
  using compile::Precision;
  if (config.precision == Precision::kFp32 || config.precision == Precision::kAuto) return "";
  return fmt::format(
      ", {} rounded to {}",
      config.lora.quantize == compile::Quantization::kNf4 ? "the rest" : "frozen weights",
      config.precision == Precision::kFp16 ? "f16" : "bf16");
}

std::string trained_line(const config::RunConfig& config, double trained, double all) {
  return fmt::format(
      "trains    {:.3g} of {:.3g} M parameters ({})", trained / 1e6, all / 1e6,
      config.lora.rank > 0
          ? fmt::format(
                "{} of rank {}{}{}",
                config.lora.kind == compile::AdapterKind::kDora ? "DoRA" : "LoRA", config.lora.rank,
                config.lora.quantize == compile::Quantization::kNf4 ? ", linear layers in 4 bits"
                                                                    : "",
                frozen_part(config))
          : "the others are frozen");
}

std::string optimizer_line(const config::RunConfig& config, std::span<const double> elements) {
  const config::OptimizerSection& o = config.optimizer;
  std::string line =
      fmt::format("optimizer {} ({:.3g} M parameters)", name_of_entry(o.kind), elements[0] / 1e6);
  for (size_t i = 0; i < o.groups.size(); ++i) {
    const config::OptimizerGroupSection& group = o.groups[i];
    line += fmt::format(", group {} {} ({:.3g} M", i + 1,
                        name_of_entry(config::settings_of(group, o).kind), elements[i + 1] / 1e6);
    if (group.learning_rate_multiplier != 1)
      line += fmt::format(", learning rate x {}", group.learning_rate_multiplier);
    line += ')';
  }
  return line;
}

}  // namespace tessera::train

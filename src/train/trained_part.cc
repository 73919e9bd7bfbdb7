#include "train/trained_part.h"

#include <fmt/format.h>

#include <algorithm>

#include "compile/optimizer.h"

namespace tessera {
namespace {

// "layer3.mlp.up.weight" → "layer.mlp.up.weight": patterns are of all layers.
std::string without_layer(std::string_view weight) {
  std::string name(weight);
  const size_t dot = std::min(name.find('.'), name.size());
  const size_t end = name.find_last_not_of("0123456789", dot - 1) + 1;
  return dot == 0 ? name : name.erase(end, dot - end);
}

}  // namespace

bool trains(const RunConfig& config, std::string_view weight) {
  if (config.lora.rank > 0) return weight.find(".lora_") != std::string_view::npos;
  const auto& frozen = config.optimizer.freeze;
  return std::none_of(frozen.begin(), frozen.end(), [&](const std::string& pattern) {
    return matches(pattern, without_layer(weight));
  });
}

std::string trained_line(const RunConfig& config, double trained, double all) {
  return fmt::format("trains    {:.3g} of {:.3g} M parameters ({})", trained / 1e6, all / 1e6,
                     config.lora.rank > 0 ? fmt::format("LoRA of rank {}", config.lora.rank)
                                          : "the others are frozen");
}

}  // namespace tessera

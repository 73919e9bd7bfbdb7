// A PEFT folder with adapters of a model, as PEFT writes it, with values that are sampled.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/stored_adapters.h"
#include "model/adapter_modules.h"

namespace tessera::checkpoint {

// The adapters that a test writes, and their settings.
struct PeftFolder {
  std::vector<std::string> targets = {"q_proj", "v_proj"};
  std::vector<std::string> parameters = {};  // of experts
  int64_t rank = 2;
  double alpha = 8;
  bool dora = false, rslora = false;
  uint64_t seed = 1;
  std::string base = "base";
  DType dtype = DType::kF32;
};

inline std::string peft_config(const PeftFolder& f) {
  const auto list = [](const std::vector<std::string>& names) {
    std::string all;
    for (const std::string& t : names) all += fmt::format("{}\"{}\"", all.empty() ? "" : ", ", t);
    return all;
  };
  return fmt::format(
      R"({{"peft_type": "LORA", "base_model_name_or_path": "{}", "r": {}, "lora_alpha": {}, )"
      R"("target_modules": [{}], "target_parameters": [{}], "use_dora": {}, "use_rslora": {}, )"
      R"("bias": "none"}})",
      f.base, f.rank, f.alpha, list(f.targets), list(f.parameters), f.dora, f.rslora);
}

// PEFT nests one wrapper of the experts in the other if both parameters have adapters.
inline std::string owner_in_peft(const model::AdapterModule& m, const PeftFolder& f) {
  if (m.experts == 0) return m.module();
  const bool inner = f.parameters.size() == 2 && m.module().ends_with("gate_up_proj");
  return m.module().substr(0, m.module().rfind('.')) + (inner ? ".base_layer" : "");
}

inline void write_peft(const Path& folder, const model::ModelConfig& model, const PeftFolder& f) {
  std::map<std::string, Shape> shapes;
  for (const model::AdapterModule& m : model::adapter_modules(model)) {
    const std::vector<std::string>& named = m.experts > 0 ? f.parameters : f.targets;
    if (std::none_of(named.begin(), named.end(),
                     [&](const std::string& t) { return model::names_module(t, m.module()); }))
      continue;
    std::vector<model::HfTensor> tensors = {m.a(f.rank), m.b(f.rank)};
    if (f.dora) tensors.push_back(m.magnitude());
    for (const model::HfTensor& t : tensors)
      shapes["base_model.model." + owner_in_peft(m, f) + t.theirs.substr(m.module().size())] =
          t.their_shape;
  }
  std::vector<SafetensorsPlan> plans;
  for (const auto& [name, shape] : shapes) plans.push_back({name, f.dtype, shape});
  std::filesystem::create_directories(folder);
  write_safetensors(folder / "adapter_model.safetensors", plans, [&](size_t tensor) -> FillPiece {
    return [&f, tensor, type = f.dtype](int64_t first, int64_t count, std::byte* out) {
      for (int64_t i = 0; i < count; ++i) {
        std::minstd_rand random(static_cast<uint32_t>(f.seed * 1000 + tensor * 77 + first + i + 1));
        random.discard(3);
        // Multiples of 1/512 below 1/4, which all types of 16 bits hold exactly.
        const float x = static_cast<float>(static_cast<int64_t>(random() >> 8 & 255) - 128) / 512;
        if (type == DType::kF32) std::memcpy(out + i * 4, &x, 4);
        const BF16 half(x);
        if (type == DType::kBF16) std::memcpy(out + i * 2, &half, 2);
      }
    };
  });
  write_file(folder / "adapter_config.json", peft_config(f));
}

}  // namespace tessera::checkpoint

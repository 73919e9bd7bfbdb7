// Reads and writes adapters as folders of Hugging Face PEFT: adapter_config.json and
// adapter_model.safetensors.
//
//   base_model.model.<module>.lora_A.weight            [rank, in]
//   base_model.model.<module>.lora_B.weight            [out, rank]
//   base_model.model.<module>.lora_magnitude_vector    [out], with DoRA
//
// Adapters of expert parameters (target_parameters) are stored under the name of their module,
// <layer>.mlp.experts: A [experts · rank, in] and B [out, rank · experts]. If both parameters have
// adapters, those of gate_up_proj are stored under <layer>.mlp.experts.base_layer.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"
#include "checkpoint/merge.h"
#include "checkpoint/stored_adapters.h"
#include "model/model_config.h"

namespace tessera::checkpoint {

// The name of the settings file in a PEFT folder.
inline constexpr const char* kPeftSettingsFile = "adapter_config.json";

// Reads the settings of a PEFT folder. Throws Error for a folder without adapter_config.json, and
// for each setting that Tessera does not compute, by its name.
AdapterSettings read_peft_settings(const Path& folder);

// Returns true for a folder with an adapter_config.json.
bool is_peft_folder(const Path& folder);

// Reads the adapters of a PEFT folder. Throws Error if the files are not adapters of that model:
// one Error lists the tensors that are missing, extra or of another shape.
StoredAdapters read_peft(const Path& folder, const model::ModelConfig& model);

// Creates a checkpoint of step 0 at `out` with the weights of a checkpoint or Hugging Face folder
// `base` and the adapters of a PEFT folder. Returns the number of adapters. Throws Error if `base`
// has adapters of its own, if the folder does not fit the model, or if `out` exists.
int64_t import_peft(const Path& base, const Path& folder, const Path& out,
                    const std::string& version);

struct PeftExport {
  int64_t adapters = 0, parameters = 0;
};

// Writes the adapters that `reader` reads, in f32, to `folder`, which appears only when it is
// complete. `base` is the name or path of the base model, for adapter_config.json; empty: none.
// Throws Error if the checkpoint has no adapters, if one of PEFT's matrices would need two of them,
// or if `folder` exists and is not empty.
PeftExport export_peft(CheckpointReader reader, const Path& folder, const std::string& base);

}  // namespace tessera::checkpoint

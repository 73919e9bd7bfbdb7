// Reads and writes adapters as folders of Hugging Face PEFT: adapter_config.json and
// adapter_model.safetensors.
//
//   base_model.model.<module>.lora_A.weight            [rank, in]
//   base_model.model.<module>.lora_B.weight            [out, rank]
//   base_model.model.<module>.lora_magnitude_vector    [out], with DoRA
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/merge.h"
#include "model/model_config.h"

namespace tessera::checkpoint {

// Reads the settings of a PEFT folder. Throws Error for a folder without adapter_config.json, and
// for each setting that Tessera does not compute, by its name.
AdapterSettings read_peft_settings(const Path& folder);

// The adapters of a PEFT folder, in Tessera's names and order of dimensions. They are small, so
// they are held in memory.
struct PeftAdapters {
  struct Tensor {
    Shape shape;
    std::vector<float> values;
  };
  Path folder;
  AdapterSettings settings;
  std::map<std::string, Tensor, std::less<>> tensors;

  // Copies the box [begin, end) of a tensor to `out`, in the type of `out`. Throws Error if the
  // folder has no such tensor or if the box exceeds its shape.
  void read(std::string_view name, std::span<const int64_t> begin, std::span<const int64_t> end,
            const TensorView& out) const;
};

// Throws Error if the files are not adapters of that model: one Error lists the tensors that are
// missing, extra or of another shape.
PeftAdapters read_peft(const Path& folder, const model::ModelConfig& model);

// Creates a checkpoint of step 0 at `out` with the weights of a checkpoint or Hugging Face folder
// `base` and the adapters of a PEFT folder. Returns the number of adapters. Throws Error if `base`
// holds adapters, too, if the folder does not fit the model, or if `out` exists.
int64_t import_peft(const Path& base, const Path& folder, const Path& out,
                    const std::string& version);

struct PeftExport {
  int64_t adapters = 0, parameters = 0;
};

// Writes the adapters of a checkpoint, in f32, to `folder`, which appears only when it is complete.
// `base` is the name or path of the base model, for adapter_config.json; empty: none. Throws Error
// if the checkpoint has no adapters, if one of PEFT's matrices would need two of them, or if
// `folder` exists and is not empty.
PeftExport export_peft(const Path& checkpoint, const Path& folder, const std::string& base);

}  // namespace tessera::checkpoint

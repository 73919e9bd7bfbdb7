// Adapters that are read from a PEFT folder or from the checkpoint of a run with `lora`, to be used
// over a base model. They are small, so they are held in memory.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/merge.h"
#include "model/adapter_modules.h"
#include "model/model_config.h"

namespace tessera::checkpoint {

struct StoredAdapters {
  struct Tensor {
    Shape shape;
    std::vector<float> values;
  };
  Path folder;
  AdapterSettings settings;
  std::map<std::string, Tensor, std::less<>> tensors;  // Tessera's names and order of dimensions

  // Copies the box [begin, end) of a tensor to `out`, in the type of `out`. Throws Error if there
  // is no such tensor or if the box exceeds its shape.
  void read(std::string_view name, std::span<const int64_t> begin, std::span<const int64_t> end,
            const TensorView& out) const;
};

// Reads the adapters of `path`, a PEFT folder or a checkpoint, for a base model. Throws Error if
// they are not adapters of that model: one Error lists the tensors that are missing, extra or of
// another shape. Throws NumericError if a value is not finite.
StoredAdapters read_adapters(const Path& path, const model::ModelConfig& model);

// Throws Error if a checkpoint that others are to be used over has adapters of its own.
void require_no_adapters(const CheckpointReader& base);

// ---- Checks that both kinds of readers make.

// Returns the tensors of the adapter of a module: A, B and, with DoRA, magnitudes. Throws Error,
// which names `folder`, if the rank exceeds the smaller side of the module's matrix.
std::vector<model::HfTensor> adapter_tensors(const model::AdapterModule& m,
                                             const AdapterSettings& settings, const Path& folder);

// Throws NumericError if a value of the adapters is not finite.
void require_finite(const StoredAdapters& adapters);

}  // namespace tessera::checkpoint

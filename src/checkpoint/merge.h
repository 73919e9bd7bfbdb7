// Merges LoRA adapters into the weights: W + scale · B A. Also averages checkpoints.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/model_config.h"

namespace tessera::checkpoint {

// Returns true if a checkpoint contains adapters, or uses those of another folder.
bool has_adapters(const CheckpointReader& checkpoint);

// Throws Error if it has adapters of a packed weight as a whole, as earlier versions trained them:
// now each of its parts has an adapter of its own.
void require_adapters_of_parts(const CheckpointReader& checkpoint, const model::ModelConfig& model);

// Settings of adapters, as the section `lora` of a run file has them.
struct AdapterSettings {
  int64_t rank = 0;
  double alpha = 16;
  std::vector<std::string> targets;
  std::string kind = "lora", scaling = "rank", quantize = "none", from;

  static void fields(auto& self, auto&& visit) {
    visit("rank", self.rank, "");
    visit("alpha", self.alpha, "");
    visit("targets", self.targets, "");
    visit("kind", self.kind, "");
    visit("scaling", self.scaling, "");
    visit("quantize", self.quantize, "");
    visit("from", self.from, "");
  }
  bool rslora() const { return scaling == "rslora"; }
  bool dora() const { return kind == "dora"; }
  double scale() const;  // the factor of B A: alpha / rank, or alpha / sqrt(rank)
};
// Reads them from the configuration in a checkpoint's header. Throws Error if it has no valid ones.
AdapterSettings adapter_settings(const CheckpointReader& checkpoint);

struct Merged {
  int64_t adapters = 0, tensors = 0, parameters = 0;
  // The dtype in which the run held the base weights, "f32", "bf16" or "f16". The merged weights
  // are the sums of these, rounded, and the adapters.
  std::string base_dtype = "f32";
};

// Writes a checkpoint of merged weights to `out`, in f32, without optimizer state: those that
// `reader` reads, so their means after use_averages(). The settings are those in the header. Throws
// Error if there are no adapters, if their shapes do not match the weights, or if `out` exists.
Merged merge_adapters(CheckpointReader reader, const Path& out, const std::string& version,
                      const OnTensor& on_tensor = {});

// ---- The mean of several checkpoints of one run (Polyak averaging), which often has a lower loss
// than the last of them.

struct Averaged {
  int64_t tensors = 0, parameters = 0;
};

// Writes the mean of each weight to `out`, computed in f64 and stored in f32, without optimizer
// state. The header is that of the checkpoint with the highest step. Reads and writes a slab of one
// tensor at a time. Throws Error if the checkpoints have different models or tensors, if there are
// fewer than two, or if `out` exists.
Averaged average_checkpoints(std::span<const Path> checkpoints, const Path& out,
                             const std::string& version, const OnTensor& on_tensor = {});

}  // namespace tessera::checkpoint

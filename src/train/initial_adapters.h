// Initial values of adapters: those of a PEFT folder, and the magnitudes of DoRA (Liu et al. 2024),
// the norm of each output's row of the weight, which a run computes when it has its weights.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/peft.h"
#include "config/run_config.h"
#include "ir/state/local_state.h"
#include "runtime/engine.h"
#include "tensor/tensor.h"

namespace tessera::train {

// Returns true if the shard is one of magnitudes.
bool is_magnitude(const StateShard& shard);

// Fills the box [begin, end) of a weight, whose checkpoint name and global shape are given, into an
// f32 array.
using ReadWeight = std::function<void(const Value& weight, const std::string& name,
                                      const std::vector<int64_t>& begin,
                                      const std::vector<int64_t>& end, TensorView out)>;

// Writes the norms of the rows of the shard's weight to `view`, in the type of the view. Reads a
// row at a time.
void fill_magnitudes(const Program& program, const StateShard& shard, const TensorView& view,
                     const ReadWeight& read);

// Computes the initial random values of weights with that seed.
ReadWeight random_weights(uint64_t seed, int threads);

// Writes all magnitudes of an engine whose weights have their initial random values of that seed,
// and the state that starts as them. Does nothing without magnitudes.
void initialize_magnitudes(runtime::Engine& engine, uint64_t seed);

// Reads the adapters of lora.from for a run that starts from the weights of a checkpoint; nothing
// if the run has no lora.from. Throws Error if the checkpoint holds adapters, too.
std::optional<checkpoint::StoredAdapters> adapters_of_run(
    const config::RunConfig& config, const checkpoint::CheckpointReader& checkpoint);

}  // namespace tessera::train

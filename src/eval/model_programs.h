// Compiles programs of a checkpoint's model and loads its weights: what LogitsModel and the
// decoders have in common. Internal to the module.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "compile/request.h"
#include "eval/language_model.h"
#include "runtime/engine.h"

namespace tessera::eval {

// Returns the request of a program for `sequences` rows of `tokens` tokens per data-parallel rank,
// for this rank of the options' layout. Throws Error if that is not a layout of options.world.
compile::CompileRequest request(const model::ModelConfig& model, compile::ProgramKind kind,
                                int64_t sequences, int64_t tokens, const ModelOptions& options,
                                int64_t source = 0);

std::unique_ptr<runtime::PreparedKernels> kernels_of(const ModelOptions& options);

// Compiles the programs and loads the weights, and the adapters if there are any. Throws Error if a
// tensor is missing, has another shape, or is not finite.
std::unique_ptr<runtime::Engine> load(checkpoint::CheckpointReader& checkpoint,
                                      std::vector<compile::CompileRequest> requests,
                                      const ModelOptions& options);

// Returns the settings of the checkpoint's adapters, with sorted targets; rank 0 if it has none.
// Throws Error if its header does not describe them.
compile::AdapterPolicy adapters_of(const checkpoint::CheckpointReader& checkpoint,
                                   const model::ModelConfig& model);

// Reads the weights of the engine's programs, or this rank's part of them: all weights, or those of
// adapters only. Throws Error as load() does.
enum class WeightsToRead : uint8_t { kAll, kAdapters };
void read_weights(checkpoint::CheckpointReader& checkpoint, WeightsToRead which,
                  runtime::Engine& engine);

// Reads the adapters that the checkpoint has now, and no other weight, into an engine whose
// programs were compiled for the adapters `present`. Returns false, and reads nothing, if they need
// other programs.
bool replace_adapters(checkpoint::CheckpointReader& checkpoint, const model::ModelConfig& model,
                      const compile::AdapterPolicy& present, runtime::Engine& engine);

// Compiles one program of the checkpoint's model, with its adapters.
Program compile_for(const checkpoint::CheckpointReader& checkpoint, compile::CompileRequest request,
                    runtime::PreparedKernels& kernels);
// Makes a machine of compiled programs and loads the weights, or this rank's part of them if
// `world` holds the model together.
std::unique_ptr<runtime::Engine> load(checkpoint::CheckpointReader& checkpoint,
                                      std::vector<Program> programs,
                                      std::unique_ptr<runtime::PreparedKernels> kernels,
                                      comm::World* world = nullptr);

// Returns the elements of the program's only value with that role, in the host's memory.
template <class T>
std::span<T> values(runtime::Executor& e, Role role) {
  const TensorView v = e.bound().view(e.bound().only(role));
  return {v.as<T>(), static_cast<size_t>(v.elements())};
}

// Returns the part of the logits that this rank computed in the program's last run.
LogitsPart logits_part(runtime::Executor& executor, const runtime::RankPosition& position);

// Throws Error for an id outside the model's vocabulary.
void check_ids(std::span<const int32_t> tokens, const model::ModelConfig& model);

// Returns the model with the context that a cache can hold: longrope's frequencies change with the
// length, which a cache cannot follow, since cached keys are already rotated.
model::ModelConfig within_first_context(model::ModelConfig model);

}  // namespace tessera::eval

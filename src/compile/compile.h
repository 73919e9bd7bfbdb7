// Compiles a model to the programs that its ranks run.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compile/passes.h"
#include "compile/request.h"
#include "compile/schedule/pipeline.h"
#include "ir/program.h"
#include "ir/target.h"

namespace tessera::compile {

// Runs all passes. Throws Error for a layout or policy that cannot be compiled; the message lists
// the supported values.
Program compile(const CompileRequest& request, const Target& target);
// Returns the program of each stage, whatever request.stage is; all ranks of a stage run its
// program. The passes over blocks run once.
std::vector<Program> compile_stages(const CompileRequest& request, const Target& target);

// Returns the requests of the run's steps with fewer micro-batches: those of warmup_microbatches,
// then that of measures_noise. Their programs share the arena of the full step. They may
// need more bytes, because their buffers are packed differently.
std::vector<CompileRequest> smaller_steps(const CompileRequest& request);

// Returns the state of request.stage after the named pass. Throws as compile() does.
State compile_through(std::string_view pass, const CompileRequest& request, const Target& target,
                      const PassObserver& observe = {});

// Throws Error if a pattern of adapters, frozen weights or optimizer groups matches no weight, or
// lora.rank exceeds a weight's smaller side; compile() throws the same.
void check_weight_names(const CompileRequest& request);
// Returns the names of the weights that the run trains, each once, as checkpoints name them
// ("layer.attn.qkv.weight" for all layers). Throws as check_weight_names() does.
std::vector<std::string> trained_weights(const CompileRequest& request);
// Returns the optimizer of each of these weights. Throws as check_weight_names() does.
std::map<std::string, OptimizerKind> optimizers_of(const CompileRequest& request);

// Returns the pipeline that compile() schedules: stages, chunks, micro-batches and costs.
PipelineShape pipeline_of(const CompileRequest& request);

// Returns the model's FLOPs for one micro-batch, forward and backward, without recomputation.
double model_flops(const CompileRequest& request);

}  // namespace tessera::compile

// compile(Graph, Layout, Target) → Program: what one rank runs for one purpose.
#pragma once

#include <vector>

#include "compile/pipeline_shape.h"
#include "compile/request.h"
#include "compile/target.h"
#include "ir/program.h"

namespace tessera {

// Throws Error for a layout or policy that cannot be compiled, with what is possible.
Program compile(const CompileRequest& request, const Target& target);
// One a stage, whatever request.stage says: the ranks of a stage all run its program. The passes
// over blocks run once.
std::vector<Program> compile_stages(const CompileRequest& request, const Target& target);

// Throws Error where adapters or frozen weights name none of the model's, or adapters are wider
// than a weight; compile() throws the same.
void check_weight_names(const CompileRequest& request);

// What the stages of the pipeline do: the schedule that compile() follows.
PipelineShape pipeline_of(const CompileRequest& request);

// FLOPs of the model for one step's micro-batch, forward and backward, without recomputation.
double model_flops(const CompileRequest& request);

}  // namespace tessera

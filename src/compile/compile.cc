// Runs the passes for the purposes that callers have: one stage, all stages, a state after a given
// pass, or only what a plan needs. The passes up to lowering do not depend on the stage.
// compile_blocks() runs them once, and each stage continues from a copy, so a pipeline of 64 stages
// does not differentiate its layers 64 times.
//
// Questions about a request (which weights it trains, their optimizers, the shape of its pipeline)
// are answered by running the passes that decide them, not by a second computation that could
// disagree.
#include "compile/compile.h"

#include <set>

#include "base/error.h"
#include "base/real.h"
#include "compile/layout_check.h"
#include "compile/passes.h"
#include "ir/rule.h"
#include "model/forward.h"

namespace tessera::compile {
namespace {

// Throws Error for a request that no pass can compile.
Context checked(const CompileRequest& asked, const Target& target) {
  const CompileRequest& r = asked;
  check_layout(r.model, r.layout, {0, r.sequences, r.tokens, r.encoder_tokens});
  check_head_copies(r);
  check_preference(r);
  check_quantization(r);
  CHECK(r.precision != Precision::kAuto, "precision auto must be resolved before compile()");
  CHECK(!r.reuse_encoder_output || (r.kind == ProgramKind::kDecode && r.model.encoder_layers > 0),
        "only a decoder that follows an encoder can be compiled without it");
  Context c = context_of(r, target);
  CHECK(r.kind != ProgramKind::kDecode || r.layout.context == 1,
        "ranks cannot divide the positions of a cache of keys and values");
  CHECK(r.kind != ProgramKind::kDecode || r.model.encoder_layers == 0 ||
            mesh_of(r.layout).ranks() == 1,
        "a decoder that follows an encoder is on one rank");
  return c;
}

}  // namespace

CompiledBlocks compile_blocks(const CompileRequest& request, const Target& target) {
  CompiledBlocks blocks = {checked(request, target), {}};
  run_passes(blocks.state, blocks.context, block_passes());
  return blocks;
}

// Stage passes change the state in place, so each stage starts from a copy of the common state.
Program program_of(const CompiledBlocks& blocks, int64_t stage) {
  State state = blocks.state;
  state.share.stage = stage;
  run_passes(state, blocks.context, stage_passes());
  return std::move(state.lowered.program);
}

Program compile(const CompileRequest& request, const Target& target) {
  return std::move(compile_through("assign_buffers", request, target).lowered.program);
}

State compile_through(std::string_view pass, const CompileRequest& request, const Target& target,
                      const PassObserver& observe) {
  State state;
  CHECK(!passes_through(pass).empty(), "there is no pass {}", pass);
  run_passes(state, checked(request, target), passes_through(pass), observe);
  return state;
}

std::vector<Program> compile_stages(const CompileRequest& request, const Target& target) {
  const CompiledBlocks blocks = compile_blocks(request, target);
  std::vector<Program> programs;
  for (int64_t stage = 0; stage < request.layout.pipeline; ++stage)
    programs.push_back(program_of(blocks, stage));
  return programs;
}

void check_weight_names(const CompileRequest& request) { trained_weights(request); }

namespace {

// Returns the trained weights, each once. Their names, whether they are frozen, and their policies
// are final after assign_optimizers, before buffers get offsets.
std::vector<Value> trained_values(const CompileRequest& request) {
  State state;
  run_passes(state, context_of(request, {}), passes_through("assign_optimizers"));
  std::vector<Value> trained;
  std::set<std::string> names;
  for (const Value& v : state.graph.values)
    if (v.role == Role::kWeight && !v.frozen && names.insert(checkpoint_name(v)).second)
      trained.push_back(v);
  return trained;
}

}  // namespace

std::vector<CompileRequest> smaller_steps(const CompileRequest& request) {
  std::vector<CompileRequest> steps;
  const auto add = [&](int64_t microbatches) {
    CompileRequest& step = steps.emplace_back(request);
    step.microbatches = microbatches;
    step.warmup_microbatches.clear();
    step.measures_noise = false;
  };
  for (const int64_t microbatches : request.warmup_microbatches) add(microbatches);
  if (request.measures_noise) add(1);
  return steps;
}

std::vector<std::string> trained_weights(const CompileRequest& request) {
  std::vector<std::string> names;
  for (const Value& v : trained_values(request)) names.push_back(checkpoint_name(v));
  return names;
}

std::map<std::string, OptimizerKind> optimizers_of(const CompileRequest& request) {
  std::map<std::string, OptimizerKind> optimizers;
  for (const Value& v : trained_values(request))
    if (v.policy != kBalancePolicy) optimizers[checkpoint_name(v)] = request.policy(v.policy).kind;
  return optimizers;
}

PipelineShape pipeline_of(const CompileRequest& request) {
  State state;
  run_passes(state, context_of(request, {}), passes_through("assign_stages"));
  return state.share.pipeline;
}

double model_flops(const CompileRequest& request) {
  const Graph g =
      model::forward(request.model, {request.sequences, request.tokens, request.encoder_tokens});
  double flops = 0;
  for (const Block& b : g.blocks)
    for (const Op& op : b.forward)
      flops += real_product(cost_of(op, g.values).flops.model, b.count());
  return 3 * flops;  // the backward has two GEMMs for each GEMM of the forward
}

}  // namespace tessera::compile

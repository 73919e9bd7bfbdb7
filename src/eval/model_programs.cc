// Compiles programs of a checkpoint's model and loads its weights into one machine.
#include "eval/model_programs.h"

#include <algorithm>

#include "base/config.h"
#include "base/error.h"
#include "checkpoint/finite.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/merge.h"
#include "compile/compile.h"
#include "eval/evaluation_layout.h"
#include "model/adapter_modules.h"

namespace tessera::eval {
namespace {

// Throws Error if a stored tensor does not have the model's shape. Without this check, a corner of
// a larger tensor would be read.
void check_shape(const checkpoint::CheckpointReader& checkpoint, const StateShard& shard) {
  const checkpoint::StoredTensor* stored = checkpoint.find(shard.name);
  if (stored != nullptr && stored->shape != shard.shape)
    throw Error("{}: '{}' has the shape {}, expected {}. Use another checkpoint.",
                checkpoint.folder().string(), shard.name, to_string(stored->shape),
                to_string(shard.shape));
}

}  // namespace

compile::AdapterPolicy adapters_of(const checkpoint::CheckpointReader& checkpoint,
                                   const model::ModelConfig& model) {
  compile::AdapterPolicy policy;
  if (!checkpoint::has_adapters(checkpoint)) return policy;
  checkpoint::require_adapters_of_parts(checkpoint, model);
  const checkpoint::AdapterSettings s = checkpoint::adapter_settings(checkpoint);
  policy = {s.rank, s.alpha, s.targets};
  // PEFT writes a set, in any order.
  std::ranges::sort(policy.targets);
  if (s.dora()) policy.kind = compile::AdapterKind::kDora;
  if (s.rslora()) policy.scaling = compile::AdapterScaling::kRslora;
  return policy;
}

compile::CompileRequest request(const model::ModelConfig& model, compile::ProgramKind kind,
                                int64_t sequences, int64_t tokens, const ModelOptions& options,
                                int64_t source) {
  compile::CompileRequest r;
  r.encoder_tokens = source;
  r.model = model;
  r.kind = kind;
  r.sequences = sequences;
  r.tokens = tokens;
  r.precision = options.precision;
  if (options.world == nullptr) return r;
  r.layout = options.layout;
  const Mesh mesh = compile::mesh_of(r.layout, compile::head_copies(model, r.layout));
  if (mesh.ranks() != options.world->size())
    throw Error("the layout {} has {} ranks, but {} were started.", to_string(r.layout),
                mesh.ranks(), options.world->size());
  // The rows of a short text, and the positions of a cache, cannot be divided: those ranks read
  // different texts instead.
  const bool decodes = kind == compile::ProgramKind::kDecode;
  if (decodes) r.layout.sequence_parallel = false;
  if (r.layout.context > 1 && (decodes || tokens % r.layout.context != 0)) {
    r.layout.data *= r.layout.context;
    if (r.layout.zero_group > 0) r.layout.zero_group *= r.layout.context;
    r.layout.context = 1;
  }
  r.stage = coordinates_of(mesh, options.world->rank())[AxisKind::kPipeline];
  return r;
}

std::unique_ptr<runtime::PreparedKernels> kernels_of(const ModelOptions& o) {
  const CpuFeatures cpu = read_cpu_features();
  return std::make_unique<runtime::PreparedKernels>(kernels::backend_of(cpu, o.threads, o.gpu));
}

std::unique_ptr<runtime::Engine> load(checkpoint::CheckpointReader& checkpoint,
                                      std::vector<compile::CompileRequest> requests,
                                      const ModelOptions& options) {
  auto kernels = kernels_of(options);
  std::vector<Program> programs;
  for (compile::CompileRequest& r : requests)
    programs.push_back(compile_for(checkpoint, std::move(r), *kernels));
  return load(checkpoint, std::move(programs), std::move(kernels), options.world);
}

// Adapters are computed separately from the weights, as in training, so no merged copy is made.
Program compile_for(const checkpoint::CheckpointReader& checkpoint, compile::CompileRequest request,
                    runtime::PreparedKernels& kernels) {
  request.adapters = adapters_of(checkpoint, request.model);
  return compile::compile(request, kernels.target());
}

std::unique_ptr<runtime::Engine> load(checkpoint::CheckpointReader& checkpoint,
                                      std::vector<Program> programs,
                                      std::unique_ptr<runtime::PreparedKernels> kernels,
                                      comm::World* world) {
  runtime::EngineOptions of_engine;
  of_engine.world = world;
  auto engine = std::make_unique<runtime::Engine>(std::move(programs), std::move(kernels),
                                                  std::move(of_engine));
  read_weights(checkpoint, WeightsToRead::kAll, *engine);
  return engine;
}

void read_weights(checkpoint::CheckpointReader& checkpoint, WeightsToRead which,
                  runtime::Engine& engine) {
  for (const StateShard& shard : local_state(engine.program(), engine.position().at)) {
    if (which == WeightsToRead::kAdapters && !model::is_adapter(shard.name)) continue;
    const TensorView view = engine.view(shard);
    check_shape(checkpoint, shard);
    checkpoint.read(shard.name, shard.begin, shard.end, view);
    checkpoint::require_finite(checkpoint, shard.name, view);
    engine.written(view);
  }
}

bool replace_adapters(checkpoint::CheckpointReader& checkpoint, const model::ModelConfig& model,
                      const compile::AdapterPolicy& present, runtime::Engine& engine) {
  if (adapters_of(checkpoint, model) != present) return false;
  read_weights(checkpoint, WeightsToRead::kAdapters, engine);
  return true;
}

LogitsPart logits_part(runtime::Executor& e, const runtime::RankPosition& p) {
  LogitsPart out;
  if (p.at[AxisKind::kPipeline] + 1 < p.mesh[AxisKind::kPipeline]) return out;
  const Value& v = e.bound().program()[e.bound().only(Role::kLogits)];
  for (const AxisKind a : Enumerators<AxisKind>()) {
    if (a == AxisKind::kPipeline || p.mesh[a] == 1) continue;
    CHECK(v.sharding.place[a] != kPartial && v.sharding.place[a] != kPartialMax,
          "{} is a partial sum", v.name);
    // The first of several ranks with the same logits counts.
    if (v.sharding.place[a] < 0 && p.at[a] > 0) return out;
  }
  const GlobalBox box = global_box_of(v, p.mesh, p.at);
  out.values = values<float>(e, Role::kLogits);
  out.first_row = box.begin[0];
  out.first_token = box.begin[1];
  out.first_id = box.begin[2];
  out.rows = box.end[0] - box.begin[0];
  out.tokens = box.end[1] - box.begin[1];
  out.ids = box.end[2] - box.begin[2];
  return out;
}

void check_ids(std::span<const int32_t> tokens, const model::ModelConfig& model) {
  for (const int32_t id : tokens)
    if (id < 0 || id >= model.padded_vocabulary())
      throw Error(
          "token id {} is not in the model's vocabulary of {}. The text was encoded with "
          "another tokenizer; use the checkpoint's own.",
          id, model.padded_vocabulary());
}

model::ModelConfig within_first_context(model::ModelConfig model) {
  if (model.rope_scaling.rope_type == model::RopeType::kLongrope)
    model.context = std::min(model.context, model.rope_scaling.original_max_position_embeddings);
  return model;
}

}  // namespace tessera::eval

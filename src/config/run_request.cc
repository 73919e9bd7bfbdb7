// Translates a run file to the requests of the compiler and of the batch reader.
#include "config/run_request.h"

#include <cmath>

#include "base/error.h"
#include "data/span_corruption.h"

namespace tessera::config {
int64_t target_tokens(const DataSection& d) {
  if (d.target_length > 0 || d.objective != Objective::kSpanCorruption) return d.target_length;
  return data::fit_spans(d.sequence_length, {d.noise_density, d.mean_span}).targets;
}

namespace {

DType moments_of(MomentType type, compile::Precision precision) {
  switch (type) {
    case MomentType::kAuto:
      return precision == compile::Precision::kBf16Sr ? DType::kBF16 : DType::kF32;
    case MomentType::kFp32:
      return DType::kF32;
    case MomentType::kBf16:
      return DType::kBF16;
    case MomentType::k8Bit:
      return DType::kU8;
  }
  CHECK(false, "unknown dtype of moments {}", static_cast<int>(type));
}

compile::OptimizerPolicy policy_of(const OptimizerSection& o, compile::Precision precision) {
  return {.kind = o.kind,
          .beta1 = o.beta1,
          .beta2 = o.beta2,
          .epsilon = o.epsilon,
          .weight_decay = o.weight_decay,
          .decays_vectors = o.weight_decay_applies_to == Decay::kAll,
          .moments = moments_of(o.moment_dtype, precision),
          .stochastic = o.rounding == Rounding::kStochastic,
          .decay_power = o.decay_power,
          .clip_threshold = o.clip_threshold,
          .min_parameter_scale = o.min_parameter_scale,
          .scale_parameter = o.scale_parameter,
          .momentum = o.momentum,
          .nesterov = o.nesterov,
          .newton_schulz_steps = o.newton_schulz_steps,
          .newton_schulz_coefficients = o.newton_schulz_coefficients,
          .update_scale = o.update_scale,
          .bf16_newton_schulz = o.newton_schulz_dtype == NewtonSchulzType::kBf16,
          .qk_clip = o.qk_clip};
}

// Returns the policy of a layer's matrices, which an optimizer of `kind` updates, in a model that
// is `ratio` times as wide as the one whose hyper-parameters are used (docs/decisions/mup.md). The
// decay per step, the product of the rate and weight_decay, stays.
compile::OptimizerPolicy of_matrices(compile::OptimizerPolicy policy, OptimizerKind kind,
                                     double ratio) {
  if (traits_of(kind).matrices)
    ratio = policy.update_scale == UpdateScale::kSpectral ? std::sqrt(ratio) : 1;
  policy.rate_multiplier /= ratio;
  policy.weight_decay *= ratio;
  return policy;
}

// Puts a group of matrices before each group, and one for the run's own optimizer after all. Muon
// leaves the routers among them to AdamW.
void divide_by_shape(compile::CompileRequest& r, double ratio) {
  std::vector<compile::OptimizerGroup> groups;
  const auto add_matrices = [&](const std::vector<std::string>& match,
                                const compile::OptimizerPolicy& policy) {
    groups.push_back({.match = match,
                      .policy = of_matrices(policy, policy.kind, ratio),
                      .rest = of_matrices(policy, OptimizerKind::kAdamW, ratio),
                      .matrices_only = true});
  };
  for (const compile::OptimizerGroup& g : r.groups) {
    add_matrices(g.match, g.policy);
    groups.push_back(g);
  }
  add_matrices({"*"}, r.optimizer);
  r.groups = std::move(groups);
}

}  // namespace

compile::CompileRequest compile_request(const RunConfig& config, compile::ProgramKind kind) {
  compile::CompileRequest r;
  r.model = config.model;
  r.layout = config.layout;
  r.options = config.compiler;
  r.precision = config.precision;
  const OptimizerSection& o = config.optimizer;
  r.optimizer = policy_of(o, config.precision);
  for (const OptimizerGroupSection& group : o.groups) {
    compile::OptimizerGroup& g = r.groups.emplace_back();
    g.match = group.match;
    g.policy = policy_of(settings_of(group, o), config.precision);
    g.policy.rate_multiplier = group.learning_rate_multiplier;
    // A group that names its kind applies it to all of its matrices (docs/optimizers.md).
    g.policy.all_matrices = group.settings.find("kind") != nullptr;
  }
  if (config.model.mup.base > 0) divide_by_shape(r, config.model.width_ratio());
  r.loss = {config.loss.z_loss, config.loss.label_smoothing,
            config.model.mtp_depth > 0 ? config.loss.mtp_weight : 0};
  r.preference = preference_terms(config.objective);
  r.average_decay = o.ema;
  r.clip_norm = o.clip_norm;
  r.adapters = config.lora.policy();
  r.frozen = o.freeze;
  r.kind = kind;
  r.sequences = config.batch.micro;
  const bool encodes = config.model.encoder_layers > 0;
  // With an encoder, data.sequence_length is the length of its input, and the decoder's follows.
  r.tokens = encodes ? target_tokens(config.data) : config.data.sequence_length;
  r.encoder_tokens = encodes ? config.data.sequence_length : 0;
  r.intra_document_masking = config.data.intra_document_masking && !encodes;
  // The micro-batches of all data ranks are processed at the same time.
  const int64_t together = config.batch.micro * config.layout.data;
  r.microbatches = kind == compile::ProgramKind::kTrain ? config.batch.global / together : 1;
  if (kind == compile::ProgramKind::kTrain)
    for (const int64_t batch : config.batch.warmup_sizes)
      r.warmup_microbatches.push_back(batch / together);
  r.measures_noise =
      kind == compile::ProgramKind::kTrain && config.metrics.noise_scale_every_steps > 0;
  r.optimizer_state = true;
  return r;
}

int64_t row_tokens(const RunConfig& config) {
  const compile::CompileRequest r = compile_request(config, compile::ProgramKind::kTrain);
  return r.tokens + r.encoder_tokens;
}

data::BatchShape batch_shape(const RunConfig& config, int64_t rank) {
  data::BatchShape shape;
  shape.global = config.batch.global;
  shape.micro = config.batch.micro;
  shape.sequence_length = config.data.sequence_length;
  shape.rank = rank;
  shape.ranks = config.layout.data;
  shape.ramp = config.batch.warmup_sizes;
  shape.ramp_steps = config.batch.warmup_steps_per_size;
  return shape;
}

}  // namespace tessera::config

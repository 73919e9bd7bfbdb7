// Scales a run down to a size that trains anywhere in a minute, as a list of overrides, so that the
// result is checked like any run file.
#include "config/run_config.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::config {
namespace {

constexpr int64_t kLayers = 2, kHidden = 64, kHeads = 8, kInner = 176, kTokens = 64;
constexpr int64_t kSequences = 8, kAtOnce = 4, kSteps = 100;
// The learning rate for AdamW: large enough for a model of this size to learn in 100 steps.
constexpr double kRate = 3e-3;
constexpr int64_t kLongestWarmUp = kSteps / 10;

// Scales a number of steps of the run to kSteps.
int64_t share_of(const RunConfig& run, int64_t steps) {
  if (steps == 0 || run.schedule.steps == 0) return 0;
  return std::max<int64_t>(1, kSteps * steps / run.schedule.steps);
}

auto setter(std::vector<std::string>& keys) {
  return [&keys](const char* key, const auto& value) {
    keys.push_back(fmt::format("{}={}", key, value));
  };
}

// Layers and widths. A small model has the same features as the run's.
void set_model(const RunConfig& run, std::vector<std::string>& keys) {
  const model::ModelConfig& m = run.model;
  const auto set = setter(keys);
  set("model.layers", kLayers);
  set("model.encoder_layers", m.encoder_layers > 0 ? kLayers : 0);
  set("model.hidden", kHidden);
  set("model.heads", kHeads);
  // The same share of heads as in the run, so that grouped-query attention stays grouped.
  set("model.kv_heads", std::max<int64_t>(1, kHeads * m.kv_heads / m.heads));
  set("model.head_width", 0);
  set("model.feed_forward", kInner);
  if (m.latent.exists()) {
    set("model.latent.query_rank", m.latent.query_rank > 0 ? kHidden / 2 : 0);
    set("model.latent.key_value_rank", kHidden / 4);
    for (const char* width : {"nope_width", "rope_width", "value_width"})
      keys.push_back(fmt::format("model.latent.{}={}", width, kHidden / kHeads / 2));
  }
  if (!m.dense_layers.empty()) set("model.dense_layers", "[0]");
  if (!m.no_rope_layers.empty()) set("model.no_rope_layers", "[1]");
  if (m.window > 0) set("model.window", kTokens / 4);
  if (!m.window_layers.empty()) set("model.window_layers", "[0]");
  set("model.attention_scalar", 0);
  if (m.rope_scaling.rope_type == model::RopeType::kLongrope) {
    set("model.rope_scaling.rope_type", "llama3");
    set("model.rope_scaling.factor", 1);
    set("model.rope_scaling.attention_factor", 0);
    for (const char* list : {"short", "long"})
      keys.push_back(fmt::format("model.rope_scaling.{}_factor=[]", list));
  }
  const auto scaled = [&](int64_t inner) {
    return std::max<int64_t>(1, kInner * inner / m.feed_forward);
  };
  if (m.expert_feed_forward > 0) set("model.expert_feed_forward", scaled(m.expert_feed_forward));
  if (m.shared_feed_forward > 0) set("model.shared_feed_forward", scaled(m.shared_feed_forward));
  if (!m.wide_layers.empty()) {
    set("model.wide_layers", "[0]");
    set("model.wide_feed_forward", scaled(m.wide_feed_forward));
  }
}

}  // namespace

std::vector<std::string> scaled_down_run(const RunConfig& run) {
  std::vector<std::string> keys;
  const auto set = setter(keys);
  set("run.name", run.run.name + "-small");
  set("run.directory", "runs/" + run.run.name + "-small");
  set_model(run, keys);
  // The small widths are not multiples of its blocks.
  if (run.lora.quantize != compile::Quantization::kNone) set("lora.quantize", "none");
  // 0: the tokenizer's vocabulary.
  set("model.vocabulary", 0);
  set("model.vocabulary_multiple", 1);
  set("model.context", kTokens);
  set("data.sequence_length", kTokens);
  if (run.data.objective == Objective::kSpanCorruption) set("data.target_length", 0);
  set("data.stages", "[]");
  set("batch.global", kSequences);
  set("batch.micro", kAtOnce);
  set("batch.warmup_sizes", "[]");
  set("batch.warmup_steps_per_size", 0);
  if (run.optimizer.kind == OptimizerKind::kAdamW) set("optimizer.learning_rate", kRate);
  set("schedule.steps", kSteps);
  set("schedule.warmup_steps", std::min(kLongestWarmUp, share_of(run, run.schedule.warmup_steps)));
  set("schedule.decay_steps", share_of(run, run.schedule.decay_steps));
  for (const char* axis : {"data", "context", "expert", "tensor", "pipeline", "interleave"})
    keys.push_back(fmt::format("layout.{}=1", axis));
  set("layout.zero_group", 0);
  set("layout.stages", "[]");
  set("layout.pipeline_schedule", "1f1b");
  if (run.layout.recompute.starts_with("full:")) set("layout.recompute", "full");
  set("checkpoint.every_steps", 0);
  set("checkpoint.keep_every_steps", 0);
  set("checkpoint.keep_every_tokens", 0);
  set("checkpoint.at_steps", "[]");
  set("metrics.validate_every_steps", kSteps / 2);
  set("metrics.validate_sequences", kSequences * 4);
  return keys;
}

}  // namespace tessera::config

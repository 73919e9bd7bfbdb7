// Trains small models of several widths in this process and compares how much their activations
// change. The first and the last step record the outputs of the ops that compute with weights.
#include "measure/coordinates.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "comm/world.h"
#include "config/schedule.h"
#include "data/tokenizer.h"
#include "train/load_run.h"
#include "train/run_device.h"
#include "train/run_programs.h"
#include "train/trainer.h"
#include "train/training_input.h"

namespace tessera::measure {
namespace {

// The activations of one micro-batch, by op and layer.
using Activations = std::map<std::pair<std::string, int64_t>, std::vector<float>>;

bool is_recorded(const Op& op) {
  return op.is<Embedding>() || op.is<Scale>() || op.is<Matmul>() || op.is<Attention>() ||
         op.is<Experts>();
}

// Records the outputs of forward ops that multiply or mix activations.
std::function<void(const runtime::OpEvent&)> recorder(Activations& out) {
  return [&out](const runtime::OpEvent& e) {
    const Phase phase = e.segment.phase;
    const Op& op = *e.op.op;
    if ((phase != Phase::kForward && phase != Phase::kJoint) || e.call.microbatch != 0) return;
    if (!is_recorded(op) || e.op.outputs[0].dtype != DType::kF32) return;
    const TensorView view = e.host(e.op.outputs[0]);
    const float* const x = view.f32();
    out[{op.origin, e.call.layer}].assign(x, x + view.elements());
  };
}

// Keys of a run on one rank of the CPU whose activations can be recorded.
void simplify(config::RunConfig& c) {
  c.layout = {};
  c.layout.zero = 0;
  c.precision = compile::Precision::kFp32;
  c.run.device = config::Device::kCpu;
  c.batch.warmup_sizes.clear();
  c.batch.warmup_steps_per_size = 0;
  c.compiler = {};
  c.compiler.cross_entropy = compile::CrossEntropyKind::kUnfused;
  c.metrics.noise_scale_every_steps = 0;
}

}  // namespace

std::vector<std::string> keys_of_width(const model::ModelConfig& m, int64_t hidden) {
  std::vector<std::string> keys = {fmt::format("model.hidden={}", hidden)};
  const auto grow = [&](const char* key, int64_t size) {
    if (size == 0) return;
    if (size * hidden % m.hidden != 0)
      throw Error(
          "--widths {}: model.{} = {} becomes {} × {} / {}, which is not an integer. Choose "
          "multiples of model.hidden = {}, or change model.{}.",
          hidden, key, size, size, hidden, m.hidden, m.hidden, key);
    keys.push_back(fmt::format("model.{}={}", key, size * hidden / m.hidden));
  };
  // The width of a head stays, so there are more heads.
  if (!m.latent.exists()) keys.push_back(fmt::format("model.head_width={}", m.head_size()));
  grow("heads", m.heads);
  grow("kv_heads", m.kv_heads);
  grow("feed_forward", m.feed_forward);
  grow("wide_feed_forward", m.wide_feed_forward);
  grow("expert_feed_forward", m.expert_feed_forward);
  grow("shared_feed_forward", m.shared_feed_forward);
  grow("latent.query_rank", m.latent.query_rank);
  grow("latent.key_value_rank", m.latent.key_value_rank);
  return keys;
}

ActivationChange change_of_activations(config::RunConfig config, int64_t steps) {
  simplify(config);
  const std::unique_ptr<comm::World> world = comm::self_world();
  const train::RunDevice device = train::resolve_device(config, *world);
  train::resolve_sizes(config);
  if (config.run.threads == 0) config.run.threads = train::threads_for(device.cpu, *world);
  const auto tokenizer = data::load_tokenizer(train::tokenizer_of_run(config));
  train::TrainingInput input(config, *tokenizer);
  train::Trainer trainer(config, device.kernels(static_cast<int>(config.run.threads)),
                         device.memory_limit(), *world, {});
  trainer.initialize();
  input.begin(config, trainer.data_rank(), std::nullopt);
  Activations before, after;
  // The last step shows the weights after `steps` updates. Each step reads the first batch again.
  for (int64_t i = 0; i <= steps; ++i) {
    Activations* const out = i == 0 ? &before : i == steps ? &after : nullptr;
    const train::StepResult r =
        trainer.step(1, config.optimizer.learning_rate, input.batches(),
                     out ? recorder(*out) : std::function<void(const runtime::OpEvent&)>());
    if (!r.finite) throw Error("step {} has values that are not finite", i + 1);
  }
  std::map<std::string, std::pair<double, int64_t>> sums;
  for (const auto& [key, was] : before) {
    const std::vector<float>& is = after.at(key);
    auto& [sum, count] = sums[key.first];
    for (size_t i = 0; i < was.size(); ++i) sum += std::abs(static_cast<double>(is[i]) - was[i]);
    count += std::ssize(was);
  }
  ActivationChange change;
  for (const auto& [name, sum] : sums) change[name] = sum.first / static_cast<double>(sum.second);
  return change;
}

double growth_exponent(const std::vector<double>& x, const std::vector<double>& y) {
  CHECK(x.size() == y.size() && x.size() >= 2, "{} and {} numbers", x.size(), y.size());
  const auto n = static_cast<double>(x.size());
  double mean_x = 0, mean_y = 0;
  for (size_t i = 0; i < x.size(); ++i) mean_x += std::log(x[i]) / n, mean_y += std::log(y[i]) / n;
  double xy = 0, xx = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double dx = std::log(x[i]) - mean_x;
    xy += dx * (std::log(y[i]) - mean_y);
    xx += dx * dx;
  }
  CHECK(xx > 0, "all numbers are equal");
  return xy / xx;
}

}  // namespace tessera::measure

#include "train/run_ranges.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/error.h"

namespace tessera {
namespace {

struct Range {
  const char* path;
  double least, most;
  bool or_zero = false;  // zero turns it off
};

// f32 has normal numbers from 1.2e-38 to 3.4e38; what is squared needs the root of that.
constexpr double kTiny = 1e-37, kHuge = 1e38;
constexpr double kExact = 9007199254740992.0;  // 2^53: integers that a double holds
constexpr double kAny = std::numeric_limits<double>::infinity();
// Largest p and beta for which 1 - p is not 0 in f32, with a margin.
constexpr double kBelowOne = 0.999999;

constexpr Range kRanges[] = {
    {"run.seed", 0, kExact},
    {"run.threads", 0, kMostThreads},
    {"run.stop_after_steps", 0, kAny},
    {"model.init_std", 1e-18, 1e18},
    {"model.dropout", 0, kBelowOne},
    {"model.attention_dropout", 0, kBelowOne},
    {"model.embedding_dropout", -kHuge, kBelowOne},
    {"data.size_exponent", 0, 1},
    {"data.sequence_length", 1, kAny},
    {"data.target_length", 0, kAny},
    {"data.noise_density", 1e-6, kBelowOne},
    {"data.mean_span", 1, 1e6},
    {"batch.global", 1, kAny},
    {"batch.micro", 1, kAny},
    {"layout.data", 1, kAny},
    {"compiler.bucket_bytes", 0, kAny},
    {"optimizer.learning_rate", kTiny, kHuge},
    {"optimizer.beta1", 0, kBelowOne},
    {"optimizer.beta2", 0, kBelowOne},
    {"optimizer.epsilon", kTiny, 1e6},
    {"optimizer.weight_decay", 0, 1e6},
    {"optimizer.clip_norm", 1e-30, 1e30, true},
    {"optimizer.decay_power", 0, 1},
    {"optimizer.update_clip", 1e-18, 1e18},
    {"optimizer.least_scale", 1e-18, 1e18},
    {"lora.rank", 0, kAny},
    {"lora.alpha", 1e-9, 1e9},
    {"schedule.steps", 0, kExact},  // 0: loads, saves and ends
    {"schedule.warmup_steps", 0, kExact},
    {"schedule.decay_steps", 0, kExact},
    {"schedule.floor", 0, 1},
    // 2^32 is Megatron's first scale. Below 2^-24 the smallest f16 gradient is 1.
    {"loss_scale.initial", 0x1p-24, 0x1p32},
    {"loss_scale.least", 0x1p-24, 0x1p32},
    {"loss_scale.window", 1, kExact},
    {"loss_scale.hysteresis", 1, 1000},
    {"divergence.ratio", 1, 1e30, true},
    {"divergence.steps", 1, 1e6},
    {"divergence.spike", 1, 1e30, true},
    {"checkpoint.every_steps", 0, kAny},
    {"checkpoint.keep", 0, kAny},
    {"checkpoint.retry_s", 0, kAny},
    {"checkpoint.keep_every_steps", 0, kAny},
    {"checkpoint.keep_every_tokens", 0, kAny},
    {"evaluation.every_steps", 0, kAny},
    {"evaluation.limit", 0, kAny},
    {"metrics.every_steps", 1, kAny},
    {"metrics.validate_every_steps", 0, kAny},
    {"metrics.validate_sequences", 0, kAny},
    {"metrics.trace_step", 0, kAny},
};

// Weights of a blend: sums and products of them stay far from the ends of f64.
constexpr double kLeastWeight = 1e-12, kMostWeight = 1e12;

std::optional<double> number_at(const Tree& config, std::string_view path) {
  const Tree* at = &config;
  while (at != nullptr) {
    const size_t dot = std::min(path.find('.'), path.size());
    at = at->as_members() ? at->find(std::string(path.substr(0, dot))) : nullptr;
    if (dot == path.size()) break;
    path.remove_prefix(dot + 1);
  }
  if (at == nullptr) return {};
  if (const auto* x = std::get_if<double>(&at->value)) return *x;
  if (const auto* n = std::get_if<int64_t>(&at->value)) return static_cast<double>(*n);
  return {};
}

[[noreturn]] void fail(const RunConfig& c, const std::string& path, const std::string& what) {
  const auto at = c.places.find(path);
  throw Error("{}: {} {}", at == c.places.end() ? c.source : at->second, path, what);
}

void check_weights(const RunConfig& c, const char* path, const std::vector<DataSource>& sources) {
  for (const DataSource& s : sources)
    if (!(s.weight >= kLeastWeight && s.weight <= kMostWeight))
      fail(c, path,
           fmt::format("has {} with weight {}, expected a weight in [{:g}, {:g}]", s.prefix,
                       s.weight, kLeastWeight, kMostWeight));
}

}  // namespace

void check_ranges(const RunConfig& config) {
  const Tree tree = to_tree(config);
  for (const Range& r : kRanges) {
    const std::optional<double> x = number_at(tree, r.path);
    if (!x || (*x >= r.least && *x <= r.most) || (r.or_zero && *x == 0)) continue;
    const std::string range = r.most == kAny
                                  ? fmt::format("{:g} or more", r.least)
                                  : fmt::format("a value in [{:g}, {:g}]", r.least, r.most);
    fail(config, r.path,
         fmt::format("= {}, expected {}{}", *x, range, r.or_zero ? ", or 0 to turn it off" : ""));
  }
  check_weights(config, "data.train", config.data.train);
  for (const DataStage& stage : config.data.stages)
    check_weights(config, "data.stages", stage.train);
}

}  // namespace tessera

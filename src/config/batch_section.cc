// Checks the batch sizes: divisibility, and bounds that keep the number of calls, of activations
// and of tokens within what can be compiled and counted in 64 bits.
#include "config/batch_section.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "config/run_config.h"
#include "model/check_model.h"

namespace tessera::config {
namespace {

// A step is a list of calls that is held in memory; a typing error must not fill it.
constexpr int64_t kMostCalls = int64_t{1} << 22;
constexpr int64_t kMostRampSizes = 64;
constexpr double kMostTokens = 1e18;  // that a run reads

// Checks upper bounds of the numbers that exist at once, so that their bytes fit in 64 bits.
void check_activations(const RunConfig& run, KeyErrors& errors) {
  const model::ModelConfig& m = run.model;
  const auto layers = static_cast<double>(m.all_layers());
  const auto hidden = static_cast<double>(m.hidden);
  const auto width =
      static_cast<double>(std::max({m.feed_forward, m.wide_feed_forward, m.expert_feed_forward}));
  const double inner = std::max(1.0, static_cast<double>(m.experts_per_token)) * width +
                       static_cast<double>(m.shared_feed_forward) + static_cast<double>(m.experts);
  const double heads = static_cast<double>(m.heads) * static_cast<double>(m.head_size());
  const auto vocabulary = static_cast<double>(m.vocabulary + m.vocabulary_multiple);
  // Twice the sequence: an encoder and a decoder may both have this length.
  const double tokens = 2 * static_cast<double>(run.data.sequence_length);
  const double widest = 4 * heads + 3 * inner + hidden + vocabulary;
  const double global = static_cast<double>(run.batch.global) * tokens * widest;
  const double micro = static_cast<double>(run.batch.micro) * tokens * widest * layers;
  if (std::max(global, micro) > model::kMostNumbers)
    errors.add("batch.global",
               "= {} in micro-batches of {} makes {:.1e} activations, expected at most {:.0e}",
               run.batch.global, run.batch.micro, std::max(global, micro), model::kMostNumbers);
}

void check_calls(const RunConfig& run, KeyErrors& errors) {
  const int64_t layers = run.model.all_layers();
  const int64_t microbatches = run.batch.global / run.layout.data / run.batch.micro;
  // Divided rather than multiplied, so that the check itself cannot overflow.
  if (microbatches > kMostCalls / layers)
    errors.add("batch.micro",
               "= {} makes {} micro-batches of {} layers each, more than {} calls per step. Use a "
               "larger batch.micro.",
               run.batch.micro, microbatches, layers, kMostCalls);
}

// Checks the warm-up sizes. Each one is a program of its own, so their number and all their calls
// are bounded.
void check_ramp_sizes(const RunConfig& run, KeyErrors& errors) {
  const BatchSection& b = run.batch;
  const int64_t layers = run.model.all_layers(), together = run.layout.data * b.micro;
  if (std::ssize(b.warmup_sizes) > kMostRampSizes)
    return errors.add("batch.warmup_sizes", "has {} sizes, expected at most {}.",
                      b.warmup_sizes.size(), kMostRampSizes);
  int64_t microbatches = 0;
  for (const int64_t size : b.warmup_sizes) {
    if (size < 1 || size % together != 0)
      return errors.add("batch.warmup_sizes",
                        "has {}, expected multiples of layout.data × batch.micro = {}", size,
                        together);
    if (size / together > kMostCalls / layers - microbatches)
      return errors.add("batch.warmup_sizes",
                        "has {}: {} micro-batches of {} layers each, and the sizes together exceed "
                        "{} calls. Use smaller sizes or a larger batch.micro.",
                        size, size / together, layers, kMostCalls);
    microbatches += size / together;
  }
}

void check_tokens(const RunConfig& run, KeyErrors& errors) {
  const BatchSection& b = run.batch;
  int64_t largest = b.global;
  for (const int64_t size : b.warmup_sizes) largest = std::max(largest, size);
  const int64_t steps = std::max(run.schedule.steps, b.warmup_steps_per_size);
  const double per_sequence =
      static_cast<double>(run.data.sequence_length) + static_cast<double>(run.data.target_length);
  const double tokens = static_cast<double>(steps) * static_cast<double>(largest) * per_sequence;
  if (tokens > kMostTokens)
    errors.add(b.warmup_steps_per_size > run.schedule.steps ? "batch.warmup_steps_per_size"
                                                            : "schedule.steps",
               "with batches of {} makes {:.1e} tokens, expected at most {:.0e}.", largest, tokens,
               kMostTokens);
}

}  // namespace

void check(const BatchSection& b, const RunConfig& run, KeyErrors& errors) {
  const int64_t ranks = run.layout.data;
  if (b.global % ranks != 0)
    return errors.add("batch.global", "= {} is not a multiple of layout.data = {}", b.global,
                      ranks);
  if (b.global / ranks % b.micro != 0)
    return errors.add("batch.micro", "= {} does not divide batch.global = {}{}. Possible here: {}.",
                      b.micro, b.global,
                      ranks == 1 ? "" : fmt::format(" / layout.data = {}", ranks),
                      fmt::join(model::divisors(b.global / ranks), ", "));
  check_activations(run, errors);
  check_calls(run, errors);
  check_ramp_sizes(run, errors);
  if (b.warmup_sizes.empty() != (b.warmup_steps_per_size == 0) || b.warmup_steps_per_size < 0)
    errors.add("batch.warmup_steps_per_size",
               "= {} with {} sizes in batch.warmup_sizes, expected both or neither",
               b.warmup_steps_per_size, b.warmup_sizes.size());
  check_tokens(run, errors);
  if (run.metrics.noise_scale_every_steps > 0 && b.global == ranks * b.micro)
    errors.add("metrics.noise_scale_every_steps",
               "= {} compares a micro-batch with a step, but each step has one micro-batch: "
               "batch.global = layout.data × batch.micro = {}. Use a smaller batch.micro.",
               run.metrics.noise_scale_every_steps, b.global);
}

}  // namespace tessera::config

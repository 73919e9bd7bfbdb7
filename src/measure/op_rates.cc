// Measures the rates of ops in training steps of small models, where the caches hold what the
// neighboring ops left, as in a real run. The fixed time per op is measured separately, on a model
// so small that its data hardly matters, and is subtracted.
#include "measure/op_rates.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "base/clock.h"
#include "base/median.h"
#include "ir/mesh.h"
#include "ir/rule.h"
#include "model/presets.h"
#include "plan/op_time.h"
#include "train/run_programs.h"
#include "train/trainer.h"

namespace tessera::measure {
namespace {

// Returns true for work whose rate is in operations per second; that of other ops is in bytes.
bool is_rated_by_flops(Work w) {
  return w == Work::kAttention || w == Work::kChunks || w == Work::kGrouped;
}

// One op of a step, at its position in the schedule.
struct Sample {
  std::string key;
  Cost cost;
  std::vector<double> seconds;
};

// A learning rate of 0 keeps the weights finite, whatever the data; the work of a step is the same.
config::RunConfig probe(model::Family family, DType type, int64_t hidden, int64_t tokens,
                        int64_t micro) {
  config::RunConfig c;
  model::apply_family(family, c.model);
  c.model.layers = 2;
  c.model.hidden = hidden;
  c.model.heads = std::max<int64_t>(hidden / 64, 1);
  c.model.vocabulary = 16 * hidden;
  c.model.context = c.data.sequence_length = tokens;
  if (family == model::Family::kGpt2) c.model.dropout = 0.1;
  model::derive_sizes(c.model);
  c.batch.micro = micro;
  c.batch.global = 2 * micro;  // the second micro-batch accumulates gradients
  c.precision = type == DType::kF32 ? compile::Precision::kFp32 : compile::Precision::kBf16;
  c.optimizer.learning_rate = 0;
  return c;
}

data::BatchSource batches(const config::RunConfig& c) {
  return {config::batch_shape(c, 0),
          [v = c.model.vocabulary](int64_t sample, std::span<int32_t> out) {
            for (size_t t = 0; t < out.size(); ++t) {
              // A hash of sample and position: ids are spread over the whole table and are the same
              // in every run.
              const uint64_t mixed = (sample << 20 | t) * 0x9e3779b97f4a7c15u;
              out[t] = static_cast<int32_t>((mixed >> 33) % v);
            }
            return std::ssize(out);
          }};
}

// Trains a model for some steps after one warm-up step and records the time of each op.
class Probe {
 public:
  Probe(const config::RunConfig& config, const CpuFeatures& cpu, int threads)
      : world_(comm::self_world()),
        trainer_(config, std::make_unique<runtime::PreparedKernels>(cpu, threads), INT64_MAX,
                 *world_, steady_s),
        values_(local_values(trainer_.program().values)),
        source_(batches(config)) {
    trainer_.initialize();
  }

  std::vector<Sample> run(int steps) {
    trainer_.step(1, 0, source_);
    for (int s = 0; s < steps; ++s) {
      next_ = 0;
      trainer_.step(2 + s, 0, source_, [this](const runtime::OpEvent& e) { note(e); });
    }
    return std::move(samples_);
  }

  // Returns the time per op of a step that is not observed.
  double seconds_an_op(int steps) {
    run(1);
    std::vector<double> seconds;
    for (int s = 0; s < steps; ++s) {
      const double began = steady_s();
      trainer_.step(3 + s, 0, source_);
      seconds.push_back((steady_s() - began) / static_cast<double>(next_));
    }
    return median(seconds);
  }

 private:
  void note(const runtime::OpEvent& e) {
    const double seconds = steady_s() - e.start_s;
    if (next_ == samples_.size()) {
      const Op& op = *e.op.op;
      samples_.push_back({plan::rate_key(op, values_), cost_of(op, values_), {}});
    }
    // The schedule is the same in every step, so the n-th event belongs to the n-th op.
    samples_[next_++].seconds.push_back(seconds);
  }

  std::unique_ptr<comm::World> world_;
  train::Trainer trainer_;
  ValueVector values_;
  data::BatchSource source_;
  std::vector<Sample> samples_;
  size_t next_ = 0;
};

// Adds work and time up by kind of op. The maps are sorted, so all ranks have the same order.
class Rates {
 public:
  explicit Rates(double kernel_s) : kernel_s_(kernel_s) {}

  void add(const Sample& s) {
    // The fixed time is subtracted, but at least a tenth of the time stays.
    const double seconds = std::max(median(s.seconds) - kernel_s_, 0.1 * median(s.seconds));
    // Work and time are summed before the division, so that long ops have more weight in a rate.
    if (s.cost.work == Work::kProduct) {
      const GemmShape& p = s.cost.products.front();
      Sum& sum =
          products_[{std::string(name_of(p.type)), std::string(name_of(p.kind)), p.m, p.n, p.k}];
      sum.work += p.flops();
      sum.seconds += seconds;
      return;
    }
    const bool by_flops = is_rated_by_flops(s.cost.work);
    Sum& sum = (by_flops ? flops_ : bytes_)[s.key];
    sum.work += by_flops ? s.cost.flops.hardware : s.cost.moved_bytes;
    sum.seconds += seconds;
  }

  StepRates mean(comm::World& world) const {
    StepRates r;
    // All rates are reduced at once. They are written and read back in the order of the maps.
    std::vector<double> rates;
    const auto each = [&](const auto& all) {
      for (const auto& [key, sum] : all) rates.push_back(sum.work / sum.seconds);
    };
    each(products_), each(bytes_), each(flops_);
    rates.push_back(kernel_s_);
    world.all_reduce(rates, comm::Reduction::kSum);
    auto next = rates.begin();
    const auto ranks = static_cast<double>(world.size());
    for (const auto& [key, sum] : products_) {
      const auto& [type, kind, m, n, k] = key;
      r.products.push_back({type, kind, m, n, k, *next++ / ranks});
    }
    for (const auto& [key, sum] : bytes_) r.op_bytes_per_s[key] = *next++ / ranks;
    for (const auto& [key, sum] : flops_) r.op_flops_per_s[key] = *next++ / ranks;
    r.kernel_s = *next / ranks;
    return r;
  }

 private:
  struct Sum {
    double work = 0, seconds = 0;
  };
  double kernel_s_;
  std::map<std::tuple<std::string, std::string, int64_t, int64_t, int64_t>, Sum> products_;
  std::map<std::string, Sum> bytes_, flops_;
};

}  // namespace

std::vector<config::RunConfig> probe_models(DType type, Depth depth) {
  if (depth == Depth::kRough) return {probe(model::Family::kLlama, type, 192, 112, 1)};
  if (type != DType::kF32)
    return {probe(model::Family::kLlama, type, 320, 352, 2),
            probe(model::Family::kNeox, type, 640, 208, 2)};
  return {probe(model::Family::kGpt2, type, 320, 208, 3),
          probe(model::Family::kGpt2, type, 640, 352, 1),
          probe(model::Family::kLlama, type, 320, 352, 2),
          probe(model::Family::kNeox, type, 640, 208, 2)};
}

StepRates measure_steps(comm::World& world, const CpuFeatures& cpu, int threads, Depth depth) {
  constexpr int kTinySteps = 50, kSteps[] = {1, 3, 5};  // kSteps is indexed by Depth
  world.barrier();
  // With sizes this small, almost all time of a step is the fixed cost of its ops.
  const double tiny = Probe(probe(model::Family::kGpt2, DType::kF32, 32, 8, 1), cpu, threads)
                          .seconds_an_op(kTinySteps);
  Rates rates(tiny);
  for (const DType type : {DType::kF32, DType::kBF16})
    for (const config::RunConfig& c : probe_models(type, depth)) {
      Probe p(c, cpu, threads);
      world.barrier();
      for (const Sample& s : p.run(kSteps[static_cast<size_t>(depth)])) rates.add(s);
    }
  return rates.mean(world);
}

}  // namespace tessera::measure

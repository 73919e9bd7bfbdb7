// Small models on small machines, drawn at random: what search() is compared on.
#pragma once

#include <cmath>

#include "base/philox.h"
#include "model/presets.h"
#include "plan/predict.h"
#include "plan/search.h"

namespace tessera::testing {

class SearchDraw {
 public:
  explicit SearchDraw(uint64_t seed) : random_{hash_name("search", seed)} {}

  int64_t pick(std::initializer_list<int64_t> from) {
    const auto n = static_cast<int64_t>(from.size());
    return *(from.begin() + static_cast<int64_t>(random_.word(next_++) % static_cast<uint64_t>(n)));
  }
  // Between low and high, evenly by the logarithm.
  double between(double low, double high) {
    const double u = static_cast<double>(random_.word(next_++) >> 11) * 0x1p-53;
    return low * std::pow(high / low, u);
  }

  plan::SearchRequest request(std::initializer_list<int64_t> devices,
                              std::initializer_list<int64_t> layers) {
    plan::SearchRequest r;
    model::ModelConfig& m = r.base.model;
    m.family = pick({0, 1}) == 0 ? model::Family::kNeox : model::Family::kGpt2;
    m.layers = pick(layers);
    m.heads = pick({2, 4});
    m.hidden = 16 * m.heads;
    m.vocabulary = pick({160, 512});
    m.context = 32;
    model::derive_sizes(m);
    r.base.tokens = 32;
    r.base.precision = pick({0, 1}) == 0 ? compile::Precision::kFp32 : compile::Precision::kBf16;
    r.base.layout.overlap = pick({0, 1, 2});
    r.devices = pick(devices);
    r.global = pick({6, 12});
    r.most_interleave = 3;
    return r;
  }

  // Kinds of layers that differ in time and bytes, in turn or the first ones apart.
  void kinds_of_layers(model::ModelConfig& m) {
    for (int64_t l = 0; l < m.layers; ++l) {
      if (m.family == model::Family::kNeox && pick({0, 1, 2}) == 0) m.no_rope_layers.push_back(l);
      if (pick({0, 1}) == 0) m.wide_layers.push_back(l);
    }
    if (!m.wide_layers.empty()) m.wide_feed_forward = pick({16, 32, 256, 640});
  }

  // A mixture of experts, with or without dense layers, biases of the router and a balancing loss.
  void experts_of(plan::SearchRequest& r) {
    model::ModelConfig& m = r.base.model;
    m.family = pick({0, 1}) == 0 ? model::Family::kMixtral : model::Family::kQwen3Moe;
    m.feed_forward = m.kv_heads = m.head_width = 0;
    model::apply_family(m.family, m);
    m.experts = pick({2, 4, 6});
    m.experts_per_token = pick({1, 2});
    m.expert_feed_forward = pick({16, 64});
    m.router.bias = pick({0, 1}) == 1;
    m.router.balance_loss = pick({0, 1}) == 1 ? 0.01 : 0;
    if (m.family == model::Family::kQwen3Moe && m.layers > 1 && pick({0, 1}) == 1)
      m.dense_layers = {0};
    model::derive_sizes(m);
  }

  plan::Hardware hardware() {
    plan::Hardware h;
    h.device.memory_bytes = between(2e5, 4e6);
    h.device.memory_bytes_per_s = between(1e10, 1e12);
    h.device.memory_efficiency = 0.8;
    h.device.bf16_flops_per_s = between(1e11, 1e14);
    h.device.fp32_flops_per_s = 0.5 * h.device.bf16_flops_per_s;
    h.device.matrix_efficiency = 0.7;
    h.device.processors = pick({0, 16});
    h.device.kernel_s = between(1e-8, 2e-6);
    h.node.devices = pick({1, 2, 3, 4, 8});
    h.node.package_devices = pick({1, 2});
    h.node.bytes_per_s = between(1e9, 1e11);
    h.node.package_bytes_per_s = 2 * h.node.bytes_per_s;
    h.node.efficiency = 0.7;
    h.node.latency_s = between(1e-8, 5e-6);
    h.network.bytes_per_s = between(1e8, 5e10);
    h.network.efficiency = 0.8;
    h.network.latency_s = between(1e-7, 2e-5);
    h.network.adapters = pick({1, 2});
    return h;
  }

  plan::Software software() {
    plan::Software s;
    s.launch_s = pick({0, 1}) == 0 ? 0 : between(1e-8, 5e-6);
    s.step_s = pick({0, 1}) == 0 ? 0 : 1e-5;
    s.overlap_data = pick({0, 1}) == 0;
    s.overlap_pipeline = pick({0, 1}) == 0;
    // Of each, so that gradients are summed, or sent, in 16 bits.
    if (pick({0, 1}) == 0) {
      const bool sums = pick({0, 1}) == 0;
      s.compiler.grad_accum_dtype =
          sums ? compile::GradAccumDType::kWeight : compile::GradAccumDType::kF32;
      s.compiler.grad_reduce_dtype =
          sums ? compile::GradReduceDType::kAccum : compile::GradReduceDType::kWeight;
      s.places["compiler.grad_accum_dtype"] = s.places["compiler.grad_reduce_dtype"] = "here";
    }
    s.split_messages = pick({0, 1}) == 0;
    s.overlap_regather = pick({0, 1}) == 0;
    s.hierarchical = pick({0, 1}) == 0;
    return s;
  }

 private:
  Philox random_;
  uint64_t next_ = 0;
};

}  // namespace tessera::testing

// Trains a model whose activations are softsign for one step, and expects a lower loss.
#include <cmath>
#include <cstdio>

#include "compile/graph/graph_passes.h"
#include "kernels/softsign.h"
#include "model/forward.h"
#include "model/presets.h"
#include "tests/compile/lockstep.h"

namespace tessera::testing {
namespace {

constexpr int64_t kSequences = 2, kTokens = 8;
constexpr double kLearningRate = 1e-3;

model::ModelConfig tiny() {
  model::ModelConfig m;
  model::apply_family(model::Family::kGpt2, m);
  m.layers = 2;
  m.hidden = 32;
  m.heads = 4;
  m.vocabulary = 53;
  m.vocabulary_multiple = 1;
  m.context = kTokens;
  model::derive_sizes(m);
  return m;
}

Graph model_with_softsign() {
  Graph g = model::forward(tiny(), kSequences, kTokens);
  for (Block& b : g.blocks)
    for (Op& op : b.forward)
      if (op.is<Gelu>()) op.attributes = Softsign{};
  compile::shard(g, {});
  compile::differentiate(g);
  compile::remove_mark_shared(g);
  compile::remove_dead_ops(g);
  return g;
}

// Any numbers that differ: ids of tokens, or small weights.
double drawn(const Value& v, int64_t layer, int64_t i) {
  const int64_t n = 7919 * i + 104729 * layer;
  if (v.role == Role::kTokens || v.role == Role::kLabels) return static_cast<double>(n % 53);
  if (v.role == Role::kPositions) return static_cast<double>(i % kTokens);
  if (v.role != Role::kWeight) return 0;
  return v.initial.constant + 0.1 * std::sin(static_cast<double>(n));
}

class Training {
 public:
  Training() : g_(model_with_softsign()) {
    for (const ValueId v : g_.values.ids())
      for (int64_t l = 0; l < layers_of(v); ++l) {
        Array all(static_cast<size_t>(g_[v].shape.elements()));
        for (size_t i = 0; i < all.size(); ++i) all[i] = drawn(g_[v], l, static_cast<int64_t>(i));
        weights_[{v, l}] = all;
      }
  }

  // Returns the loss, and changes the weights by their gradients.
  double step() {
    Lockstep machine(g_, kernels_);
    for (const auto& [key, all] : weights_)
      if (is_given(key.first)) machine.write(key.first, key.second, all);
    machine.run();
    double loss = 0;
    for (const ValueId v : g_.values.ids()) {
      if (g_[v].role == Role::kReport) loss = machine.read(v, 0)[kLossSum];
      if (g_[v].role != Role::kGradient) continue;
      for (int64_t l = 0; l < layers_of(v); ++l) {
        const Array gradient = machine.read(v, l);
        Array& weight = weights_.at({g_[v].of, l});
        for (size_t i = 0; i < weight.size(); ++i) weight[i] -= kLearningRate * gradient[i];
      }
    }
    return loss;
  }

 private:
  int64_t layers_of(ValueId v) const { return (g_[v].indexed_by & kPerLayer) ? tiny().layers : 1; }
  bool is_given(ValueId v) const {
    const Role r = g_[v].role;
    return r == Role::kWeight || r == Role::kStep || is_batch(r);
  }

  runtime::PreparedKernels kernels_{CpuFeatures(), 1};
  Graph g_;
  std::map<std::pair<ValueId, int64_t>, Array> weights_;
};

}  // namespace
}  // namespace tessera::testing

int main() {
  tessera::testing::Training training;
  const double before = training.step(), after = training.step();
  std::printf("loss %.6f, after a step %.6f\n", before, after);
  return std::isfinite(before) && after < before ? 0 : 1;
}

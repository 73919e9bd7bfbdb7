// Every op with its gradient, as its binding calls it, on a CUDA device against the CPU.
#include "ir/rule.h"
#include "tests/compile/built_op.h"
#include "tests/cuda/device.h"

namespace tessera::testing {
namespace {

// A sum in another order may round to the other neighbor where it is stored in 16 bits.
constexpr double kBound = 2e-6, kRoundedBound = 4e-3;

class CudaOps : public OnGpu {
 protected:
  void expect_same(const Case& c) {
    const Built built(c);
    runtime::PreparedKernels cpu(CpuFeatures(), 1);
    const auto gpu = gpu_prepared();
    Lockstep here(built.graph, cpu), there(built.graph, *gpu);
    for (const ValueId v : built.given) {
      const Array numbers = contents(built.graph[v], v);
      here.write(v, 0, numbers);
      there.write(v, 0, numbers);
    }
    for (const auto* ops : {&built.forward, &built.backward}) {
      here.run_ops(*ops, 0);
      there.run_ops(*ops, 0);
      for (const Op& op : *ops)
        for (const ValueId v : op.outputs) {
          const Array wanted = here.read(v, 0);
          expect_close(there.read(v, 0), wanted,
                       size_of(built.graph[v].dtype) == 2 ? kRoundedBound : kBound,
                       fmt::format("{}: {} of {}", c.name, built.graph[v].name, op.origin));
          // The backward starts from the same numbers: what the forward rounds is not its error.
          there.write(v, 0, wanted);
        }
    }
  }
};

TEST_F(CudaOps, ForwardsWithTheirGradients) {
  for (const Case& c : forwards()) expect_same(c);
}
TEST_F(CudaOps, Backwards) {
  for (const Case& c : backwards()) expect_same(c);
}

// Sizes that the small cases do not reach: several tiles, tails, heads that share keys.
std::vector<Case> larger() {
  const auto bf16 = [](Shape s) { return In{DType::kBF16, std::move(s)}; };
  const auto f16 = [](Shape s) { return In{DType::kF16, std::move(s)}; };
  const auto bf16_weight = [](Shape s) { return In{DType::kBF16, std::move(s), Role::kWeight}; };
  return {
      {"attention of two tiles", Attention{.scale = 0.2}, {x({2, 70, 2, 4, 24})}},
      {"attention of wide heads", Attention{.scale = 0.1}, {x({1, 35, 1, 3, 136})}},
      {"attention of wide heads with narrow values",
       Attention{.scale = 0.1, .value_width = 72},
       {x({1, 35, 2, 3, 136})}},
      {"attention with narrow values in bf16",
       Attention{.scale = 0.2, .value_width = 32},
       {bf16({1, 70, 2, 3, 48})}},
      {"latent_heads in bf16",
       LatentHeads{},
       {bf16({2, 9, 3, 24}), bf16({2, 9, 3, 28}), bf16({2, 9, 8})}},
      {"attention in bf16", Attention{.scale = 0.2}, {bf16({1, 40, 2, 3, 64})}},
      {"attention of groups in bf16", Attention{.scale = 0.1}, {bf16({1, 150, 2, 5, 80})}},
      {"attention of wide heads in f16", Attention{.scale = 0.1}, {f16({1, 70, 1, 3, 128})}},
      {"attention with dropout in bf16",
       Attention{.scale = 0.2, .dropout = 0.4, .key = 1},
       {bf16({2, 50, 1, 4, 16}), samples(), step()}},
      {"attention within documents in f16",
       Attention{.scale = 0.3, .mask = Mask::kDocuments},
       {f16({2, 70, 1, 3, 24}), ids({2, 70})}},
      {"attention across in bf16",
       Attention{.scale = 0.5, .separate_kv = true, .non_causal = true, .mask = Mask::kPadding},
       {bf16({2, 37, 2, 2, 16}), bf16({2, 90, 2, 2, 16}), ids({2, 90})}},
      {"attention with a window", Attention{.scale = 0.2, .window = 37}, {x({2, 90, 2, 4, 24})}},
      {"attention with a window and a soft cap",
       Attention{.scale = 1.0, .window = 5, .soft_cap = 3},
       {x({1, 70, 1, 3, 16})}},
      {"attention with a window in bf16",
       Attention{.scale = 0.2, .window = 70},
       {bf16({1, 200, 2, 3, 64})}},
      {"attention with a window and a soft cap in f16",
       Attention{.scale = 0.5, .window = 33, .soft_cap = 2},
       {f16({1, 150, 1, 4, 96})}},
      {"attention with a window within documents in bf16",
       Attention{.scale = 0.3, .window = 20, .mask = Mask::kDocuments},
       {bf16({2, 70, 1, 3, 24}), ids({2, 70})}},
      {"head_norm of many tokens",
       HeadNorm{.epsilon = 1e-5},
       {x({2, 150, 2, 4, 40}), weight({40}), weight({40})}},
      {"head_norm in bf16",
       HeadNorm{.epsilon = 1e-5, .unit_offset = true},
       {bf16({1, 70, 2, 5, 128}), bf16_weight({128}), bf16_weight({128})}},
      {"head_norm of wide heads over all of them",
       HeadNorm{.epsilon = 1e-5, .whole = true},
       {x({1, 70, 2, 3, 136}), weight({2, 1, 136}), weight({2, 136}), known({1, 70, 2})}},
      {"head_squares of many heads", HeadSquares{}, {x({2, 5, 3, 6, 72})}},
      {"rotary with yarn",
       Rotary{.dims = 32,
              .base = 10000.0,
              .scaling = RopeScaling::kYarn,
              .factor = 8,
              .low = 1,
              .high = 32,
              .context = 64,
              .magnitude = 1.2},
       {x({2, 9, 2, 4, 40}), ids({2, 9})}},
      {"cross_entropy of long rows with a soft cap",
       CrossEntropy{.terms = {.soft_cap = 0.8, .z_loss = 0.1, .label_smoothing = 0.2}},
       {x({2, 5, 2600}), ids({2, 5})}},
      {"norm with a unit offset",
       RmsNorm{.epsilon = 1e-5, .unit_offset = true},
       {x({2, 3, 4104}), weight({4104})}},
      {"attention with much dropout",
       Attention{.scale = 0.2, .dropout = 0.4, .key = 1},
       {x({2, 50, 1, 4, 16}), samples(), step()}},
      {"attention within long documents",
       Attention{.scale = 0.3, .mask = Mask::kDocuments},
       {x({2, 45, 1, 3, 16}), ids({2, 45})}},
      {"attention with many biases",
       Attention{.scale = 1.0, .non_causal = true, .bias_distance = 20},
       {x({2, 40, 2, 3, 8}), weight({2, 16})}},
      {"attention across long sequences",
       Attention{.scale = 0.5, .separate_kv = true, .non_causal = true, .mask = Mask::kPadding},
       {x({2, 37, 2, 2, 16}), x({2, 50, 2, 2, 16}), ids({2, 50})}},
      {"wide norm", Norm{.epsilon = 1e-5}, {x({3, 70, 1000}), weight({1000}), weight({1000})}},
      {"norm beyond one sweep",
       Norm{.epsilon = 1e-5},
       {x({2, 3, 4104}), weight({4104}), weight({4104})}},
      {"norm of many rows", RmsNorm{.epsilon = 1e-5}, {bf16({4, 60, 300}), bf16_weight({300})}},
      {"norm of odd rows", RmsNorm{.epsilon = 1e-5}, {x({2, 3, 37}), weight({37})}},
      {"norm in bf16", RmsNorm{.epsilon = 1e-5}, {bf16({2, 5, 264}), bf16_weight({264})}},
      {"embedding of wide rows", Embedding{}, {ids({3, 100}), weight({kRows, 2056})}},
      {"gate of odd rows", GatedActivation{.form = GateForm::kErf}, {x({3, 7, 2})}},
      {"gelu in bf16",
       Gelu{.form = GeluForm::kTanh, .bias = true},
       {bf16({5, 3, 72}), bf16_weight({72})}},
      {"rotary of long heads",
       Rotary{.dims = 32, .base = 10000.0},
       {x({2, 9, 2, 4, 40}), ids({2, 9})}},
      {"cross_entropy of long rows", CrossEntropy{}, {x({2, 5, 2600}), ids({2, 5})}},
      {"linear_cross_entropy of odd sizes",
       LinearCrossEntropy{},
       {x({2, 33, 12}), weight({75, 12}), ids({2, 33})}},
      {"linear_cross_entropy with z-loss and smoothing",
       LinearCrossEntropy{.terms = {.z_loss = 0.1, .label_smoothing = 0.2}},
       {x({2, 33, 12}), weight({75, 12}), ids({2, 33})}},
      {"expert_capacity of many tokens",
       ExpertCapacity{.experts = kRows, .factor = 0.75},
       {ids({3, 300, 2})}},
      {"experts of several tiles",
       Experts{.experts = kRows},
       {x({2, 100, 20}), ids({2, 100, 2}), x({2, 100, 2}), weight({kRows, 12, 2, 20}),
        weight({kRows, 20, 12})}},
      {"experts that save, of odd sizes",
       Experts{.experts = kRows, .saves = true},
       {x({2, 99, 67}), ids({2, 99, 2}), x({2, 99, 2}), weight({kRows, 35, 2, 67}),
        weight({kRows, 67, 35})}},
      {"experts with clamped gates and biases in bf16",
       Experts{.experts = kRows, .form = GateForm::kClamped, .biased = true},
       {bf16({2, 99, 40}), ids({2, 99, 2}), x({2, 99, 2}), bf16_weight({kRows, 24, 2, 40}),
        bf16_weight({kRows, 40, 24}), bf16_weight({kRows, 24, 2})}},
      {"experts with adapters, of odd sizes",
       Experts{.experts = kRows, .adapters = {true, true, 0.5}},
       {x({2, 99, 67}), ids({2, 99, 2}), x({2, 99, 2}), x({kRows, 35, 2, 67}), x({kRows, 67, 35}),
        weight({kRows, 5, 67}), weight({kRows, 35, 2, 5}), weight({kRows, 5, 35}),
        weight({kRows, 67, 5})}},
      {"experts that save with an adapter of down in bf16",
       Experts{.experts = kRows, .saves = true, .adapters = {false, true, 0.5}},
       {bf16({2, 99, 40}), ids({2, 99, 2}), x({2, 99, 2}), bf16({kRows, 24, 2, 40}),
        bf16({kRows, 40, 24}), bf16_weight({kRows, 8, 24}), bf16_weight({kRows, 40, 8})}},
      {"expert_bias of odd sizes",
       ExpertBias{.experts = kRows},
       {ids({2, 99, 2}), x({2, 99, 2}), weight({kRows, 67})}},
      {"expert_bias_grad of many tokens",
       ExpertBiasGrad{.experts = kRows},
       {ids({2, 99, 2}), x({2, 99, 2}), bf16_weight({kRows, 67}), bf16({2, 99, 67})}},
      {"attention with sinks",
       Attention{.scale = 0.2, .window = 37, .sinks = true},
       {x({2, 90, 2, 4, 24}), weight({4})}},
      {"attention with sinks in bf16",
       Attention{.scale = 0.2, .sinks = true},
       {bf16({1, 200, 2, 3, 64}), bf16_weight({2})}},
      {"attention_sinks_grad of many rows",
       AttentionSinksGrad{},
       {x({4}), x({2, 90, 4, 40}), x({2, 4, 90}), x({2, 90, 4, 40})}},
      {"clamped gate of odd rows", GatedActivation{.form = GateForm::kClamped}, {x({3, 7, 2})}},
      {"sum in bf16", Sum{.terms = 2}, {bf16({4, 40}), bf16({4, 40}), bf16_weight({40})}},
  };
}

TEST_F(CudaOps, LargerSizes) {
  for (const Case& c : larger()) expect_same(c);
}

}  // namespace
}  // namespace tessera::testing

// Every op's rule on sample inputs: what comes out, its labels, its FLOPs counted by hand, and that
// its gradient is made of ops that verify.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/builder.h"
#include "ir/rule.h"
#include "ir/state.h"
#include "ir/verify.h"

namespace tessera {
namespace {

struct In {
  DType dtype;
  Shape shape;
  Role role = Role::kActivation;
};
In x(Shape s, DType t = DType::kF32) { return {t, std::move(s)}; }
In weight(Shape s, DType t = DType::kF32) { return {t, std::move(s), Role::kWeight}; }
In ids(Shape s) { return {DType::kI32, std::move(s), Role::kBatch}; }
In samples() { return {DType::kI64, {2}, Role::kBatch}; }
In step() { return {DType::kF64, {kStepSize}, Role::kStep}; }
// What is known of rows and has no gradient.
In known(Shape s) { return {DType::kF32, std::move(s), Role::kBatch}; }
In report() { return {DType::kF64, {kReportSize}, Role::kReport}; }

struct Case {
  const char* name;
  OpKind kind;
  Attributes attributes;
  std::vector<In> inputs;
  std::vector<In> outputs;  // their types and shapes
  double flops = 0;
};

constexpr DType kHalf = DType::kBF16;
constexpr auto one = int64_t{1};

// B = 2 sequences of T = 4 tokens, width 16 or K = 3 heads of G = 1 query and D = 5.
const Shape kQkv = {2, 4, 3, 3, 5}, kOut = {2, 4, 3, 5}, kLse = {2, 3, 4}, kPairs = {2, 3, 4, 4};

std::vector<Case> products() {
  return {
      {"matmul",
       OpKind::kMatmul,
       {},
       {x({2, 4, 16}), weight({32, 16})},
       {x({2, 4, 32})},
       2.0 * 8 * 16 * 32},
      {"matmul of heads",
       OpKind::kMatmul,
       {{"contract", int64_t{2}}},
       {x(kOut), weight({16, 3, 5})},
       {x({2, 4, 16})},
       2.0 * 8 * 15 * 16},
      {"matmul to heads",
       OpKind::kMatmul,
       {},
       {x({2, 4, 16}, kHalf), weight({3, 3, 5, 16}, kHalf)},
       {x(kQkv, kHalf)},
       2.0 * 8 * 16 * 45},
      {"matmul to f32",
       OpKind::kMatmul,
       {{"out", "f32"}},
       {x({2, 4, 16}, kHalf), weight({32, 16}, kHalf)},
       {x({2, 4, 32})},
       2.0 * 8 * 16 * 32},
      {"matmul_grad_input",
       OpKind::kMatmulGradInput,
       {},
       {x({2, 4, 32}), weight({32, 16})},
       {x({2, 4, 16})},
       2.0 * 8 * 16 * 32},
      {"matmul_grad_weight",
       OpKind::kMatmulGradWeight,
       {},
       {x({2, 4, 32}, kHalf), x({2, 4, 16}, kHalf)},
       {x({32, 16})},
       2.0 * 8 * 16 * 32},
      {"cross_entropy", OpKind::kCrossEntropy, {}, {x({2, 4, 32}), ids({2, 4})}, {report()}},
      {"cross_entropy with gradient",
       OpKind::kCrossEntropy,
       {{"gradient", one}},
       {x({2, 4, 32}), ids({2, 4})},
       {report(), x({2, 4, 32})}},
      {"cross_entropy with a loss scale",
       OpKind::kCrossEntropy,
       {{"gradient", one}, {"scaled", one}},
       {x({2, 4, 32}), ids({2, 4}), step()},
       {report(), x({2, 4, 32})}},
      {"linear_cross_entropy",
       OpKind::kLinearCrossEntropy,
       {},
       {x({2, 4, 16}), weight({32, 16}), ids({2, 4})},
       {report()},
       2.0 * 8 * 16 * 32},
      {"linear_cross_entropy with gradient",
       OpKind::kLinearCrossEntropy,
       {{"gradient", one}},
       {x({2, 4, 16}, kHalf), weight({32, 16}, kHalf), ids({2, 4})},
       {report(), x({2, 4, 16}, kHalf), x({32, 16})},
       3 * 2.0 * 8 * 16 * 32},
      {"linear_cross_entropy with a frozen weight and a loss scale",
       OpKind::kLinearCrossEntropy,
       {{"gradient", one}, {"frozen", one}, {"scaled", one}},
       {x({2, 4, 16}, kHalf), weight({32, 16}, kHalf), ids({2, 4}), step()},
       {report(), x({2, 4, 16}, kHalf)},
       2 * 2.0 * 8 * 16 * 32},
      {"logits_max", OpKind::kLogitsMax, {}, {x({2, 4, 32})}, {x({2, 4})}},
      {"logits_sums",
       OpKind::kLogitsSums,
       {},
       {x({2, 4, 32}), x({2, 4}), ids({2, 4})},
       {x({2, 4, 2})}},
      {"divided_cross_entropy",
       OpKind::kDividedCrossEntropy,
       {},
       {x({2, 4, 32}), known({2, 4}), known({2, 4, 2}), ids({2, 4})},
       {report()}},
      {"divided_cross_entropy with gradient",
       OpKind::kDividedCrossEntropy,
       {{"gradient", one}},
       {x({2, 4, 32}), known({2, 4}), known({2, 4, 2}), ids({2, 4})},
       {report(), x({2, 4, 32})}},
  };
}

std::vector<Case> attentions() {
  const double causal = 2 * 3 * (1 + 2 + 3 + 4);  // pairs of a query and a key before it
  const double all = 2 * 3 * 4 * 4, product = 2 * 5;
  return {
      {"rotary",
       OpKind::kRotary,
       {{"dims", int64_t{4}}},
       {x(kQkv, kHalf), ids({2, 4})},
       {x(kQkv, kHalf)}},
      {"attention", OpKind::kAttention, {}, {x(kQkv)}, {x(kOut), x(kLse)}, 2 * product * causal},
      {"attention with dropout",
       OpKind::kAttention,
       {{"dropout", 0.1}},
       {x(kQkv, kHalf), samples(), step()},
       {x(kOut, kHalf), x(kLse)},
       2 * product * causal},
      {"attention_grad",
       OpKind::kAttentionGrad,
       {},
       {x(kQkv), x(kOut), x(kLse), x(kOut)},
       {x(kQkv)},
       5 * product * causal},
      {"attention within documents",
       OpKind::kAttention,
       {{"seen", "documents"}},
       {x(kQkv), ids({2, 4})},
       {x(kOut), x(kLse)},
       2 * product * causal},
      {"attention with biases, to all that is no padding",
       OpKind::kAttention,
       {{"whole", one}, {"bias_distance", int64_t{128}}, {"seen", "padding"}},
       {x(kQkv), weight({3, 8}), ids({2, 4})},
       {x(kOut), x(kLse)},
       2 * product * all},
      {"attention across, with dropout",
       OpKind::kAttention,
       {{"across", one}, {"whole", one}, {"seen", "padding"}, {"dropout", 0.1}},
       {x({2, 4, 3, 1, 5}), x({2, 6, 3, 2, 5}), ids({2, 6}), samples(), step()},
       {x(kOut), x(kLse)},
       2 * product * all * 6 / 4},
      {"attention_grad across",
       OpKind::kAttentionGrad,
       {{"across", one}, {"whole", one}, {"bias_distance", int64_t{128}}},
       {x({2, 4, 3, 1, 5}), x(kOut), x(kLse), x(kOut), x({2, 6, 3, 2, 5}), weight({3, 8})},
       {x({2, 4, 3, 1, 5}), x({2, 6, 3, 2, 5}), x({3, 8})},
       5 * product * all * 6 / 4},
      {"cached_attention",
       OpKind::kCachedAttention,
       {{"context", int64_t{8}}},
       {x({2, 1, 3, 3, 5}), ids({2, 1})},
       {x({2, 1, 3, 5}), x({2, 8, 2, 3, 5})},
       2 * product * 2 * 3 * 8},
      {"cached_attention across",
       OpKind::kCachedAttention,
       {{"context", int64_t{8}}, {"across", one}, {"bias_distance", int64_t{128}}},
       {x({2, 1, 3, 1, 5}), ids({2, 1}), x({2, 1, 3, 2, 5}), weight({3, 8})},
       {x({2, 1, 3, 5}), x({2, 8, 2, 3, 5})},
       2 * product * 2 * 3 * 8},
      {"attention_scores",
       OpKind::kAttentionScores,
       {},
       {x(kQkv, kHalf)},
       {x(kPairs)},
       product * all},
      {"attention_scores_grad",
       OpKind::kAttentionScoresGrad,
       {},
       {x(kQkv), x(kPairs), x(kQkv)},
       {x(kQkv)},
       2 * product * all},
      {"softmax", OpKind::kSoftmax, {}, {x(kPairs)}, {x(kPairs)}},
      {"softmax_grad", OpKind::kSoftmaxGrad, {}, {x(kPairs), x(kPairs)}, {x(kPairs)}},
      {"attention_mix",
       OpKind::kAttentionMix,
       {},
       {x(kPairs), x(kQkv, kHalf)},
       {x(kOut, kHalf)},
       product * all},
      {"attention_mix_grad",
       OpKind::kAttentionMixGrad,
       {},
       {x(kPairs), x(kQkv), x(kOut)},
       {x(kPairs), x(kQkv)},
       2 * product * all},
  };
}

std::vector<Case> sweeps() {
  const Shape s = {2, 4, 16}, v = {16}, stats = {2, 4, 2};
  return {
      {"embedding", OpKind::kEmbedding, {}, {ids({2, 4}), weight({32, 16}, kHalf)}, {x(s, kHalf)}},
      {"embedding_grad",
       OpKind::kEmbeddingGrad,
       {{"rows", int64_t{32}}},
       {ids({2, 4}), x(s, kHalf)},
       {x({32, 16})}},
      {"norm",
       OpKind::kNorm,
       {},
       {x(s, kHalf), weight(v, kHalf), weight(v, kHalf)},
       {x(s, kHalf), x(stats)}},
      {"norm of a sum",
       OpKind::kNorm,
       {{"terms", int64_t{2}}, {"biases", one}},
       {x(s), x(s), weight(v), weight(v), weight(v)},
       {x(s), x(stats), x(s)}},
      {"norm_grad", OpKind::kNormGrad, {}, {x(s), x(stats), weight(v), x(s)}, {x(s), x(v), x(v)}},
      {"norm_grad that adds",
       OpKind::kNormGrad,
       {{"add", one}},
       {x(s), x(stats), weight(v), x(s), x(s)},
       {x(s), x(v), x(v)}},
      {"rms_norm", OpKind::kRmsNorm, {}, {x(s, kHalf), weight(v, kHalf)}, {x(s, kHalf), x(stats)}},
      {"rms_norm of a sum",
       OpKind::kRmsNorm,
       {{"terms", int64_t{2}}},
       {x(s), x(s), weight(v)},
       {x(s), x(stats), x(s)}},
      {"rms_norm_grad", OpKind::kRmsNormGrad, {}, {x(s), x(stats), weight(v), x(s)}, {x(s), x(v)}},
      {"rms_norm_grad that adds",
       OpKind::kRmsNormGrad,
       {{"add", one}},
       {x(s), x(stats), weight(v), x(s), x(s)},
       {x(s), x(v)}},
      {"gated_activation",
       OpKind::kGatedActivation,
       {{"form", "silu"}},
       {x({2, 4, 16, 2}, kHalf)},
       {x(s, kHalf)}},
      {"gated_activation_grad",
       OpKind::kGatedActivationGrad,
       {{"form", "silu"}},
       {x({2, 4, 16, 2}), x(s)},
       {x({2, 4, 16, 2})}},
      {"gelu", OpKind::kGelu, {{"form", "erf"}}, {x(s)}, {x(s)}},
      {"gelu with bias",
       OpKind::kGelu,
       {{"form", "tanh"}, {"bias", one}},
       {x(s), weight(v)},
       {x(s)}},
      {"gelu_grad", OpKind::kGeluGrad, {{"form", "erf"}}, {x(s), x(s)}, {x(s)}},
      {"gelu_grad with bias",
       OpKind::kGeluGrad,
       {{"form", "erf"}, {"bias", one}},
       {x(s, kHalf), weight(v, kHalf), x(s, kHalf)},
       {x(s, kHalf), x(v)}},
      {"sum", OpKind::kSum, {{"terms", int64_t{2}}}, {x(s), x(s), weight(v)}, {x(s)}},
      {"sum with bias of heads",
       OpKind::kSum,
       {{"terms", one}},
       {x(kQkv), weight({3, 3, 5})},
       {x(kQkv)}},
      {"scale", OpKind::kScale, {{"factor", 0.5}}, {x(s, kHalf)}, {x(s, kHalf)}},
      {"accumulate", OpKind::kAccumulate, {}, {x(s, kHalf)}, {x(s)}},
      {"accumulate into halves", OpKind::kAccumulate, {{"into", "bf16"}}, {x(s)}, {x(s, kHalf)}},
      {"bias_grad",
       OpKind::kBiasGrad,
       {{"dims", one}, {"count", int64_t{2}}},
       {x(s, kHalf)},
       {x(v), x(v)}},
      {"dropout", OpKind::kDropout, {{"p", 0.1}, {"key", one}}, {x(s), samples(), step()}, {x(s)}},
      {"dropout with its mask",
       OpKind::kDropout,
       {{"p", 0.1}, {"key", one}, {"mask", one}},
       {x(s, kHalf), samples(), step()},
       {x(s, kHalf), x(s, DType::kU8)}},
      {"dropout_grad", OpKind::kDropoutGrad, {{"p", 0.1}}, {x(s), x(s, DType::kU8)}, {x(s)}},
      {"cast", OpKind::kCast, {{"to", "bf16"}}, {x(s)}, {x(s, kHalf)}},
  };
}

std::vector<Case> updates() {
  const Shape s = {32, 16};
  return {
      {"clear", OpKind::kClear, {}, {}, {report()}},
      {"pack", OpKind::kPack, {{"bytes", int64_t{4096}}}, {weight(s)}, {x({4096}, DType::kU8)}},
      {"squares", OpKind::kSquares, {}, {x(s)}, {report()}},
      {"clip", OpKind::kClip, {{"norm", 1.0}}, {report()}, {report()}},
      {"adamw", OpKind::kAdamw, {}, {x(s), step(), report()}, {x(s), x(s), x(s)}},
      {"adamw with master",
       OpKind::kAdamw,
       {{"master", one}},
       {x(s), step(), report()},
       {x(s, kHalf), x(s), x(s), x(s)}},
      {"adamw all in bf16",
       OpKind::kAdamw,
       {{"weights", "bf16"}, {"moments", "bf16"}},
       {x(s), step(), report()},
       {x(s, kHalf), x(s, kHalf), x(s, kHalf)}},
      {"lion", OpKind::kLion, {}, {x(s), step(), report()}, {x(s), x(s)}},
      {"sgd", OpKind::kSgd, {}, {x(s), step(), report()}, {x(s)}},
      {"sgd with momentum", OpKind::kSgd, {{"beta1", 0.9}}, {x(s), step(), report()}, {x(s), x(s)}},
      {"adafactor_sums",
       OpKind::kAdafactorSums,
       {{"sums", int64_t{192}}},
       {x(s), x(s), report()},
       {x({192}, DType::kF64)}},
      {"adafactor_squares",
       OpKind::kAdafactorSquares,
       {{"factors", int64_t{128}}, {"weights_held", int64_t{64}}},
       {x(s), step(), report(), x({192}, DType::kF64)},
       {x({128}), x({64}, DType::kF64)}},
      {"adafactor",
       OpKind::kAdafactor,
       {{"master", one}},
       {x(s), step(), report(), x({192}, DType::kF64), x({128}), x({64}, DType::kF64)},
       {x(s, kHalf), x(s)}},
  };
}

std::vector<Case> communications() {
  const Shape s = {2, 4, 16};
  const Attributes over = {{"over", "tensor"}}, along = {{"over", "tensor"}, {"dim", one}};
  return {
      {"all_reduce", OpKind::kAllReduce, over, {x(s, kHalf)}, {x(s, kHalf)}},
      {"reduce_scatter", OpKind::kReduceScatter, along, {x(s)}, {x(s)}},
      {"all_gather", OpKind::kAllGather, along, {x(s)}, {x(s)}},
      {"slice", OpKind::kSlice, along, {x(s)}, {x(s)}},
      {"pad", OpKind::kPad, along, {x(s)}, {x(s)}},
      {"share", OpKind::kShare, over, {x(s)}, {x(s)}},
      {"send", OpKind::kSend, {{"to", "next"}}, {x(s)}, {}},
      {"receive",
       OpKind::kReceive,
       {{"from", "previous"}, {"type", "bf16"}, {"shape", "2x4x16"}},
       {},
       {x(s, kHalf)}},
  };
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& part : {products(), attentions(), sweeps(), updates(), communications()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

// The op of a case in a block of its own.
struct Built {
  Graph graph;
  std::vector<Op> ops;
  Builder builder{graph, ops, kOne, "block"};

  explicit Built(const Case& c) {
    std::vector<ValueId> in;
    builder.value("report", DType::kF64, {kReportSize}, Role::kReport, kOne);
    for (size_t i = 0; i < c.inputs.size(); ++i)
      in.push_back(builder.value("in" + std::to_string(i), c.inputs[i].dtype, c.inputs[i].shape,
                                 c.inputs[i].role, kOne));
    builder.emit(c.kind, "op", c.attributes, in);
  }
  const Op& op() const { return ops[0]; }
};

TEST(OpRules, EveryKindHasACaseAndAName) {
  std::set<OpKind> seen;
  for (const Case& c : cases()) seen.insert(c.kind);
  std::set<std::string_view> names;
  for (int k = 0; k < static_cast<int>(OpKind::kCount); ++k) {
    const OpRule& rule = rule_of(static_cast<OpKind>(k));
    EXPECT_TRUE(seen.contains(rule.kind)) << rule.name;
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    EXPECT_EQ(rule_named(rule.name), &rule);
  }
  EXPECT_EQ(rule_named("no_such_op"), nullptr);
}

TEST(OpRules, InferTypesAndShapes) {
  for (const Case& c : cases()) {
    const Built b(c);
    ASSERT_EQ(b.op().outputs.size(), c.outputs.size()) << c.name;
    for (size_t i = 0; i < c.outputs.size(); ++i) {
      const Value& made = b.graph[b.op().outputs[i]];
      EXPECT_EQ(made.dtype, c.outputs[i].dtype) << c.name << " output " << i;
      EXPECT_EQ(to_string(made.shape), to_string(c.outputs[i].shape)) << c.name << " output " << i;
    }
  }
}

TEST(OpRules, LabelsFitTheOperands) {
  for (const Case& c : cases()) {
    const Built b(c);
    for (const std::string& finding : verify_op(b.op(), b.graph.values, c.name))
      ADD_FAILURE() << finding;
    const ShardingRule rule = rule_of(c.kind).sharding(b.op(), b.graph.values);
    for (const auto& set : rule.linear)
      for (const int i : set) EXPECT_LT(i, static_cast<int>(c.inputs.size())) << c.name;
    // Dimensions of one label have one extent, and what can be split is there to be split.
    std::map<char, int64_t> extents;
    const auto look = [&](const std::string& labels, ValueId v) {
      for (size_t d = 0; d < labels.size(); ++d) {
        const int64_t n = b.graph[v].shape[static_cast<int>(d)];
        const auto [at, first] = extents.try_emplace(labels[d], n);
        if (rule.splits.find(labels[d]) == std::string::npos) continue;
        EXPECT_EQ(at->second, n) << c.name << " label " << labels[d];
      }
    };
    for (size_t i = 0; i < c.inputs.size(); ++i) look(rule.inputs[i], b.op().inputs[i]);
    for (size_t i = 0; i < c.outputs.size(); ++i) look(rule.outputs[i], b.op().outputs[i]);
    for (const char l : rule.splits) EXPECT_TRUE(extents.contains(l)) << c.name << " splits " << l;
  }
}

TEST(OpRules, FlopsAndBytesAreAsCountedByHand) {
  for (const Case& c : cases()) {
    const Built b(c);
    const Cost cost = cost_of(b.op(), b.graph.values);
    EXPECT_NEAR(cost.flops, c.flops, 1e-9 * c.flops) << c.name;
    double bytes = 0;
    for (const auto& list : {c.inputs, c.outputs})
      for (const In& v : list) bytes += static_cast<double>(v.shape.elements() * size_of(v.dtype));
    EXPECT_EQ(cost.bytes, bytes) << c.name;
  }
}

// What a case's gradient adds to: every wanted input has a gradient of its shape, made by ops that
// verify.
void expect_gradient(const Case& c) {
  Built b(c);
  Gradients g(b.builder);
  const Op op = b.op();
  for (const ValueId v : op.outputs) {
    const Value made = b.graph[v];
    if (made.role == Role::kActivation && made.dtype != DType::kF64)
      g.add(v, b.builder.value("d" + made.name, made.dtype, made.shape, Role::kScratch, kOne));
  }
  // Terms that come first of an input that others use too.
  if (c.kind == OpKind::kAttentionScores)
    g.add(op.inputs[0],
          b.builder.value("sofar", c.inputs[0].dtype, c.inputs[0].shape, Role::kScratch, kOne));
  rule_of(c.kind).gradient(g, op);
  ASSERT_GT(b.ops.size(), op.kind == OpKind::kSum && c.inputs.size() == 2 ? 0u : 1u) << c.name;
  for (const Op& made : b.ops)
    for (const std::string& finding : verify_op(made, b.graph.values, c.name))
      ADD_FAILURE() << finding;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const Value in = b.graph[op.inputs[i]];
    if (in.role == Role::kActivation) {
      ASSERT_NE(g.of(op.inputs[i]), kNone) << c.name << " input " << i;
      EXPECT_EQ(to_string(g[g.of(op.inputs[i])].shape), to_string(in.shape)) << c.name;
    }
    if (in.role != Role::kWeight) continue;
    const bool added = std::any_of(b.ops.begin(), b.ops.end(), [&](const Op& o) {
      return std::any_of(o.outputs.begin(), o.outputs.end(), [&](ValueId v) {
        return b.graph[v].role == Role::kGradient && b.graph[v].name == in.name + ".gradient";
      });
    });
    EXPECT_TRUE(added) << c.name << " weight " << i;
  }
}

TEST(OpRules, GradientsAreOpsThatVerify) {
  int tried = 0;
  for (const Case& c : cases()) {
    if (rule_of(c.kind).gradient == nullptr) continue;
    // Sums into a norm are fused after differentiation; losses are differentiated without it.
    if (c.attributes.integer("terms", 1) > 1 && c.kind != OpKind::kSum) continue;
    if (c.attributes.integer("gradient") != 0) continue;
    // On one rank a conversion leads nowhere, and so does its gradient.
    if (c.attributes.has("over")) continue;
    expect_gradient(c);
    ++tried;
  }
  EXPECT_GE(tried, 18);
}

TEST(OpRules, NothingComesOfNoGradient) {
  for (const Case& c : cases()) {
    const bool loss = c.kind == OpKind::kCrossEntropy || c.kind == OpKind::kLinearCrossEntropy ||
                      c.kind == OpKind::kDividedCrossEntropy;
    if (rule_of(c.kind).gradient == nullptr || loss) continue;
    Built b(c);
    Gradients g(b.builder);
    const Op op = b.op();
    rule_of(c.kind).gradient(g, op);
    EXPECT_EQ(b.ops.size(), 1u) << c.name;
  }
}

}  // namespace
}  // namespace tessera

// Every op's rule on the sample inputs of op_cases.h: what comes out, its labels, its FLOPs, and
// that its gradient is made of ops that verify.
#include "tests/ir/op_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/builder.h"
#include "ir/rule.h"
#include "ir/state.h"
#include "ir/verify.h"

namespace tessera::testing {
namespace {

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
    // Dimensions of one label have one extent (copies: so many times it), and what can be split is
    // there to be split.
    const int64_t copies = b.op().attributes.integer("copies", 1);
    std::map<char, int64_t> extents;
    const auto look = [&](const std::string& labels, ValueId v) {
      for (size_t d = 0; d < labels.size(); ++d) {
        const int64_t n = b.graph[v].shape[static_cast<int>(d)];
        const auto [at, first] = extents.try_emplace(labels[d], n);
        if (rule.splits.find(labels[d]) == std::string::npos) continue;
        const int64_t less = std::min(at->second, n), more = std::max(at->second, n);
        EXPECT_TRUE(more == less || more == copies * less) << c.name << " label " << labels[d];
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
}  // namespace tessera::testing

// Every op's rule on the sample inputs of op_cases.h: its outputs, labels and cost, that its
// gradient is made of ops that verify, and that the members of the rule agree with each other.
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
    builder.emit(c.attributes, "op", in);
  }
  const Op& op() const { return ops[0]; }
};

TEST(OpRules, EveryKindHasACaseAndAName) {
  std::set<OpKind> seen;
  for (const Case& c : cases()) seen.insert(kind_of(c.attributes));
  std::set<std::string_view> names;
  for (int k = 0; k < kOpKinds; ++k) {
    const auto kind = static_cast<OpKind>(k);
    EXPECT_TRUE(seen.contains(kind)) << name_of(kind);
    EXPECT_TRUE(names.insert(name_of(kind)).second) << name_of(kind);
    EXPECT_EQ(op_kind_named(name_of(kind)), kind);
    EXPECT_EQ(kind_of(default_attributes(kind)), kind);
  }
  EXPECT_EQ(op_kind_named("no_such_op"), std::nullopt);
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
    const ShardingRule rule = rule_of(kind_of(c.attributes)).sharding(b.op(), b.graph.values);
    for (const auto& set : rule.linear)
      for (const int i : set) EXPECT_LT(i, static_cast<int>(c.inputs.size())) << c.name;
    // Dimensions of one label have one extent (copies: so many times it), and what can be split is
    // there to be split.
    const RepeatHeads* const repeats = b.op().if_as<RepeatHeads>();
    const RepeatHeadsGrad* const adds = b.op().if_as<RepeatHeadsGrad>();
    const int64_t copies = repeats ? repeats->copies : (adds ? adds->copies : 1);
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
    EXPECT_EQ(cost.flops.hardware, c.flops) << c.name;
    double bytes = 0;
    for (const auto& list : {c.inputs, c.outputs})
      for (const In& v : list) bytes += static_cast<double>(v.shape.elements() * size_of(v.dtype));
    EXPECT_EQ(cost.bytes, bytes) << c.name;
  }
}

double flops_of_description(const Cost& cost) {
  double flops = cost.attention.flops();
  for (const GemmShape& p : cost.products) flops += p.flops();
  return flops;
}

TEST(OpRules, CostsDescribeAllOperations) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Built b(c);
    const Cost cost = cost_of(b.op(), b.graph.values);
    EXPECT_EQ(flops_of_description(cost), cost.flops.hardware);
    EXPECT_LE(cost.flops.model, cost.flops.hardware);
    EXPECT_GE(cost.flops.square, cost.flops.model);
    EXPECT_GT(cost.moved_bytes, 0);
    const TimeGroup time = rule_of(kind_of(c.attributes)).time;
    switch (cost.work) {
      case Work::kSweep:
      case Work::kHostCopy:
        EXPECT_EQ(cost.flops.hardware, 0);
        EXPECT_NE(time, TimeGroup::kMatrix);
        break;
      case Work::kProduct:
        EXPECT_EQ(cost.products.size(), 1u);
        EXPECT_EQ(time, TimeGroup::kMatrix);
        break;
      case Work::kChunks:
        ASSERT_FALSE(cost.products.empty());
        EXPECT_EQ(cost.products[0].kind, GemmKind::kForward);
        EXPECT_EQ(time, TimeGroup::kMatrix);
        break;
      case Work::kGrouped:
        EXPECT_GE(cost.products.size(), 2u);
        EXPECT_EQ(time, TimeGroup::kMatrix);
        break;
      case Work::kScores:
        EXPECT_FALSE(cost.products.empty());
        EXPECT_EQ(time, b.op().is<NewtonSchulz>()     ? TimeGroup::kOptimizer
                        : b.op().is<AdaptedSquares>() ? TimeGroup::kMatrix
                                                      : TimeGroup::kAttention);
        break;
      case Work::kAttention:
        EXPECT_GT(cost.attention.pairs, 0);
        EXPECT_EQ(time, TimeGroup::kAttention);
        break;
    }
  }
}

// C [m, n] from A [m, k] and B [k, n].
TEST(OpRules, ProductsHaveTheExtentsOfTheOperands) {
  int seen = 0;
  for (const Case& c : cases()) {
    const Built b(c);
    const Cost cost = cost_of(b.op(), b.graph.values);
    if (cost.work != Work::kProduct) continue;
    const GemmShape& p = cost.products[0];
    EXPECT_EQ(p.m * p.k, c.inputs[0].shape.elements()) << c.name;
    EXPECT_EQ(p.k * p.n, c.inputs[1].shape.elements()) << c.name;
    EXPECT_EQ(p.m * p.n, c.outputs[0].shape.elements()) << c.name;
    EXPECT_EQ(p.type, c.inputs[0].dtype) << c.name;
    ++seen;
  }
  EXPECT_GE(seen, 6);
}

const Case& case_named(const std::vector<Case>& all, std::string_view name) {
  return *std::find_if(all.begin(), all.end(), [&](const Case& c) { return name == c.name; });
}

Cost cost_named(std::string_view name) {
  const std::vector<Case> all = cases();
  const Built b(case_named(all, name));
  return cost_of(b.op(), b.graph.values);
}

// 6 heads of 4 queries, of which a causal mask leaves 10 of 16 pairs; 10 FLOPs a pair and product.
TEST(OpRules, ThreeCountsOfAttentionAreAsCountedByHand) {
  const auto expect = [](std::string_view name, double model, double hardware, double square) {
    const Flops f = cost_named(name).flops;
    EXPECT_EQ(f.model, 10 * model) << name;
    EXPECT_EQ(f.hardware, 10 * hardware) << name;
    EXPECT_EQ(f.square, 10 * square) << name;
  };
  expect("attention", 2 * 60, 2 * 60, 2 * 96);
  expect("attention_grad", 4 * 60, 5 * 60, 4 * 96);
  expect("attention_scores", 60, 96, 96);
  expect("attention_scores_grad", 2 * 60, 2 * 96, 2 * 96);
  expect("attention_mix", 60, 96, 96);
  expect("attention_mix_grad", 2 * 60, 2 * 96, 2 * 96);
}

// 4 of 8 queries on each of two ranks. Of the 36 causal pairs the second half has 26. The chunks 0
// and 3 of 4 have 3 + 15, and 1 and 2 have 7 + 11. A window of 3 keys leaves 21 pairs: 12 of the
// second half, 3 + 6 and 6 + 6 of the chunks.
TEST(OpRules, PairsAreThoseOfTheRankWithTheMost) {
  const auto pairs = [](ContextCut cut, int64_t window) {
    ValueVector values;
    const auto value = [&](Shape shape) {
      Value v;
      v.shape = std::move(shape);
      return values.push_back(std::move(v));
    };
    Op op;
    op.attributes = Attention{.separate_kv = true, .window = window};
    op.inputs = {value({1, 4, 1, 1, 8}), value({1, 8, 1, 2, 8})};
    op.outputs = {value({1, 4, 1, 8}), value({1, 1, 4})};
    values[op.inputs[0]].sharding.cut = cut;
    return cost_of(op, values).attention.pairs;
  };
  EXPECT_EQ(pairs(ContextCut::kParts, 0), 26);
  EXPECT_EQ(pairs(ContextCut::kZigzag, 0), 18);
  EXPECT_EQ(pairs(ContextCut::kParts, 3), 12);
  EXPECT_EQ(pairs(ContextCut::kZigzag, 3), 12);
}

TEST(OpRules, BytesThatReallyMoveAreAsCountedByHand) {
  constexpr double kRows = 2 * 4 * 16;  // looked up in a table of bf16
  EXPECT_EQ(cost_named("embedding").moved_bytes, 2 * kRows * 2);
  EXPECT_EQ(cost_named("embedding_grad").moved_bytes, 3 * kRows * 2);
  const Cost master = cost_named("adamw with master");
  EXPECT_EQ(master.moved_bytes, master.bytes + 3 * 32 * 16 * 4);
  EXPECT_EQ(cost_named("copy").moved_bytes, kRows * 4);
  const Cost norm = cost_named("norm");
  EXPECT_EQ(norm.moved_bytes, norm.bytes);
}

TEST(OpRules, AnOutputInPlaceIsLikeItsInput) {
  std::set<OpKind> seen;
  for (const Case& c : cases()) {
    const Built b(c);
    const InPlace k = in_place_of(b.op());
    if (k.input == kNone) continue;
    ASSERT_LT(static_cast<size_t>(k.input), c.inputs.size()) << c.name;
    ASSERT_LT(static_cast<size_t>(k.output), c.outputs.size()) << c.name;
    const In &in = c.inputs[static_cast<size_t>(k.input)],
             &out = c.outputs[static_cast<size_t>(k.output)];
    EXPECT_EQ(in.dtype, out.dtype) << c.name;
    EXPECT_EQ(to_string(in.shape), to_string(out.shape)) << c.name;
    EXPECT_NE(in.role, Role::kWeight) << c.name;
    seen.insert(kind_of(c.attributes));
  }
  for (int k = 0; k < static_cast<int>(kOpKinds); ++k) {
    const auto kind = static_cast<OpKind>(k);
    EXPECT_EQ(seen.contains(kind), rule_of(kind).in_place != nullptr) << name_of(kind);
  }
}

// A collective names its group; a message names its way and carries one value.
TEST(OpRules, EffectsOnOtherRanksFitTheOperands) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Built b(c);
    const Effects& effects = rule_of(kind_of(c.attributes)).effects;
    const bool over = over_of(c.attributes) != nullptr;
    EXPECT_EQ(communicates(b.op()), effects.comm != CommKind::kSilent);
    EXPECT_NE(effects.comm, CommKind::kSegment);
    // A rotation keeps the sharding of its operand: it is no conversion.
    const bool rotates = b.op().is<Rotate>();
    EXPECT_EQ(over, effects.converts || rotates);
    if (is_message(b.op())) {
      EXPECT_FALSE(effects.converts || reduces(b.op()));
      EXPECT_EQ(c.inputs.size() + c.outputs.size(), 1u);
      EXPECT_TRUE(b.op().is<Send>() || b.op().is<Receive>());
    } else if (communicates(b.op())) {
      EXPECT_TRUE(effects.converts || rotates);
    }
    if (!effects.converts) continue;
    EXPECT_EQ(c.inputs.size(), 1u);
    EXPECT_EQ(c.outputs.size(), 1u);
    EXPECT_EQ(whole_operand(b.op()),
              effects.comm == CommKind::kAllGather ? b.op().outputs[0] : b.op().inputs[0]);
  }
}

TEST(OpRules, EffectsOnTheStepFitTheOperands) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Built b(c);
    const OpRule& rule = rule_of(kind_of(c.attributes));
    const Effects& effects = rule.effects;
    // A router's loss has a backward of its own, in addition to that of the training loss.
    const bool of_router = b.op().is<RouterLoss>() || b.op().is<RouterLossGrad>();
    EXPECT_EQ(rule.sharding(b.op(), b.graph.values).loss, effects.loss || of_router);
    if (effects.loss) {
      EXPECT_TRUE(effects.adds_to_report);
      EXPECT_NE(rule.gradient, nullptr);
    }
    if (effects.adds_to_report) {
      EXPECT_EQ(c.outputs[0].role, Role::kReport);
    }
    // Biases of routers and means are updated element by element, whichever weight an element
    // belongs to.
    const bool is_elementwise = b.op().is<BalanceUpdate>() || b.op().is<WeightAverage>();
    if (effects.updates_weights) {
      EXPECT_TRUE(effects.flat_state);
      EXPECT_EQ(rule.members >= MemberTables::kRuns, !is_elementwise);
    }
    EXPECT_EQ(effects.flat_state, rule.members != MemberTables::kNothing || is_elementwise);
    if (effects.measures_part) {
      EXPECT_GE(rule.members, MemberTables::kFactors);
      EXPECT_FALSE(effects.updates_weights);
    }
    if (effects.flat_state) {
      EXPECT_EQ(rule.time, TimeGroup::kOptimizer);
    }
  }
}

// What is run again before the backward, and what the runtime prepares.
TEST(OpRules, RepeatedAndPreparedOpsAreOfTheirKind) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Built b(c);
    const OpRule& rule = rule_of(kind_of(c.attributes));
    const Work work = cost_of(b.op(), b.graph.values).work;
    if (rule.repeat != Repeat::kSaved) {
      EXPECT_NE(rule.gradient, nullptr);
      EXPECT_FALSE(rule.effects.loss || reduces(b.op()) || is_message(b.op()));
      EXPECT_NE(work, Work::kProduct);
    }
    switch (rule.prepared) {
      case Prepared::kNothing:
        EXPECT_TRUE(work != Work::kProduct && work != Work::kChunks && work != Work::kGrouped);
        break;
      case Prepared::kProduct:
        EXPECT_TRUE(work == Work::kProduct || b.op().is<Pack>());
        break;
      case Prepared::kHead:
        EXPECT_EQ(work, Work::kChunks);
        break;
      case Prepared::kAttention:
        EXPECT_EQ(work, Work::kAttention);
        break;
      case Prepared::kExperts:
        EXPECT_EQ(work, Work::kGrouped);
        break;
      case Prepared::kNewtonSchulz:
        EXPECT_EQ(work, Work::kScores);
        break;
    }
  }
}

TEST(OpRules, StateIsChangedByUpdatesAndByRole) {
  for (const Case& c : cases()) {
    const Built b(c);
    EXPECT_EQ(changes_state(b.op(), Role::kWeight),
              rule_of(kind_of(c.attributes)).effects.updates_weights)
        << c.name;
    EXPECT_TRUE(changes_state(b.op(), Role::kCache)) << c.name;
    EXPECT_TRUE(changes_state(b.op(), Role::kFactoredMoment)) << c.name;
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
    if (made.role == Role::kActivation)
      g.add(v, b.builder.value("d" + made.name, made.dtype, made.shape, Role::kScratch, kOne));
  }
  // Terms that come first of an input that others use too.
  if (op.is<AttentionScores>() || op.is<HeadSquares>())
    g.add(op.inputs[0],
          b.builder.value("sofar", c.inputs[0].dtype, c.inputs[0].shape, Role::kScratch, kOne));
  rule_of(kind_of(c.attributes)).gradient(g, op);
  ASSERT_GT(b.ops.size(), op.is<Sum>() && c.inputs.size() == 2 ? 0u : 1u) << c.name;
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

bool made_later(const OpAttributes& attributes) {
  return std::visit(
      [](const auto& a) {
        if constexpr (requires { a.sums(); })
          return a.sums();
        else if constexpr (requires { a.gradient; })
          return a.gradient;
        else if constexpr (requires { a.visit; })
          return a.visit > 0;
        else
          return false;
      },
      attributes);
}

TEST(OpRules, GradientsAreOpsThatVerify) {
  int tried = 0;
  for (const Case& c : cases()) {
    if (rule_of(kind_of(c.attributes)).gradient == nullptr) continue;
    // Sums into a norm and the visits of a ring are made after differentiation; losses are
    // differentiated without it.
    if (made_later(c.attributes)) continue;
    // On one rank a conversion leads nowhere, and so does its gradient.
    if (over_of(c.attributes) != nullptr) continue;
    expect_gradient(c);
    ++tried;
  }
  EXPECT_GE(tried, 18);
}

TEST(OpRules, NothingComesOfNoGradient) {
  for (const Case& c : cases()) {
    const OpRule& rule = rule_of(kind_of(c.attributes));
    Built b(c);
    const Op op = b.op();
    if (rule.gradient == nullptr || rule.sharding(op, b.graph.values).loss) continue;
    // The sums that move a router's biases follow from its choices, not from a gradient.
    if (const Route* const route = op.if_as<Route>(); route != nullptr && route->bias) continue;
    Gradients g(b.builder);
    rule.gradient(g, op);
    EXPECT_EQ(b.ops.size(), 1u) << c.name;
  }
}

}  // namespace
}  // namespace tessera::testing

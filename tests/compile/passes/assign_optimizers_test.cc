// Weights are marked with the first group of optimizer.groups that they match.
#include <gtest/gtest.h>

#include "compile/graph/graph_passes.h"
#include "model/forward.h"
#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {
namespace {

OptimizerGroup group(std::vector<std::string> match) { return {std::move(match), {}}; }

int64_t policy_of(const Graph& g, std::string_view name) {
  for (const Value& v : g.values)
    if (v.role == Role::kWeight && v.name == name) return v.policy;
  ADD_FAILURE() << "no weight " << name;
  return -1;
}

TEST(Passes, AssignOptimizers) {
  CompileRequest r = testing::tiny_request();
  r.groups = {group({"embed.weight"})};
  testing::expect_change("assign_optimizers", r);
}

TEST(Passes, AssignOptimizersTakesTheFirstGroupThatMatches) {
  const CompileRequest r = testing::tiny_request();
  Graph g = model::forward(r.model, {1, 8});
  assign_optimizers(g, {group({"*.bias", "*norm*"}), group({"layer.*"})});
  EXPECT_EQ(policy_of(g, "layer.attn.qkv.bias"), 1);
  EXPECT_EQ(policy_of(g, "layer.norm1.gain"), 1);
  EXPECT_EQ(policy_of(g, "layer.attn.qkv.weight"), 2);
  EXPECT_EQ(policy_of(g, "embed.weight"), 0);
}

TEST(Passes, AssignOptimizersRefusesAPatternThatMatchesNothing) {
  const CompileRequest r = testing::tiny_request();
  Graph g = model::forward(r.model, {1, 8});
  try {
    assign_optimizers(g, {group({"embed.*"}), group({"layer3.mlp.up.weight"})});
    ADD_FAILURE();
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_TRUE(
        text.starts_with("optimizer.groups[1].match has 'layer3.mlp.up.weight', which "
                         "does not name a weight. Did you mean 'layer.mlp.up.weight'?"))
        << text;
  }
}

}  // namespace
}  // namespace tessera::compile

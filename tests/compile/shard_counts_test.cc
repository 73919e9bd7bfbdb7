// The collectives of each block, counted: the least that each layer needs.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "compile/graph/graph_passes.h"
#include "ir/print.h"
#include "model/forward.h"
#include "model/presets.h"
#include "tests/every_family.h"

namespace tessera::compile {
namespace {

model::ModelConfig tiny(model::Family family) {
  model::ModelConfig m;
  model::apply_family(family, m);
  m.layers = 2;
  m.hidden = 32;
  m.heads = 4;
  m.vocabulary = 50;
  m.vocabulary_multiple = 1;
  m.context = 8;
  if (model::rule_of(family).has_encoder) m.encoder_layers = 1;
  model::derive_sizes(m);
  return m;
}

std::string counted(const std::vector<Op>& ops) {
  const auto count = [&](OpKind k) {
    return std::count_if(ops.begin(), ops.end(), [k](const Op& op) { return op.kind() == k; });
  };
  return fmt::format("{} AR {} AG {} RS", count(kind_of<AllReduce>()), count(kind_of<AllGather>()),
                     count(kind_of<ReduceScatter>()));
}

Graph compiled(Graph g, bool sequence_parallel, bool selective = false) {
  g.mesh[AxisKind::kTensor] = 2;
  g.mesh[AxisKind::kShard] = 2;  // over data, nothing is communicated inside a block
  Layout layout;
  layout.sequence_parallel = sequence_parallel;
  shard(g, layout);
  differentiate(g);
  remove_mark_shared(g);
  if (selective) recompute_selective(g);
  remove_dead_ops(g);
  return g;
}

std::string counts(const Graph& g, const std::string& name) {
  for (const Block& b : g.blocks)
    if (b.name == name)
      return b.loss ? counted(b.backward) : counted(b.forward) + " | " + counted(b.backward);
  return "no " + name;
}

TEST(ShardCounts, Gpt2) {
  const Graph whole = model::forward(tiny(model::Family::kGpt2), 4, 8);
  const Graph g = compiled(whole, false), sp = compiled(whole, true);
  EXPECT_EQ(counts(g, "layer"), "2 AR 0 AG 0 RS | 2 AR 0 AG 0 RS");
  EXPECT_EQ(counts(sp, "layer"), "0 AR 2 AG 2 RS | 0 AR 2 AG 2 RS");
  EXPECT_EQ(counts(g, "embed"), "1 AR 0 AG 0 RS | 0 AR 0 AG 0 RS");
  EXPECT_EQ(counts(sp, "embed"), "0 AR 0 AG 1 RS | 0 AR 1 AG 0 RS");
  // The maximum, both sums at once, and the gradient of what the head reads.
  EXPECT_EQ(counts(g, "head"), "3 AR 0 AG 0 RS");
  EXPECT_EQ(counts(sp, "head"), "2 AR 1 AG 1 RS");
  EXPECT_EQ(counts(compiled(whole, true, true), "layer"), "0 AR 2 AG 2 RS | 0 AR 4 AG 2 RS");
}

TEST(ShardCounts, NeoxAddsBeforeItReduces) {
  const Graph whole = model::forward(tiny(model::Family::kNeox), 4, 8);
  EXPECT_EQ(counts(compiled(whole, false), "layer"), "1 AR 0 AG 0 RS | 2 AR 0 AG 0 RS");
  EXPECT_EQ(counts(compiled(whole, true), "layer"), "0 AR 2 AG 1 RS | 0 AR 1 AG 2 RS");
}

TEST(ShardCounts, SequentialResidualIsAsGpt2) {
  model::ModelConfig m = tiny(model::Family::kNeox);
  m.parallel_residual = false;
  const Graph whole = model::forward(m, 4, 8);
  EXPECT_EQ(counts(compiled(whole, false), "layer"), "2 AR 0 AG 0 RS | 2 AR 0 AG 0 RS");
  EXPECT_EQ(counts(compiled(whole, true), "layer"), "0 AR 2 AG 2 RS | 0 AR 2 AG 2 RS");
}

TEST(ShardCounts, LlamaIsAsGpt2) {
  const Graph whole = model::forward(tiny(model::Family::kLlama), 4, 8);
  EXPECT_EQ(counts(compiled(whole, false), "layer"), "2 AR 0 AG 0 RS | 2 AR 0 AG 0 RS");
  EXPECT_EQ(counts(compiled(whole, true), "layer"), "0 AR 2 AG 2 RS | 0 AR 2 AG 2 RS");
}

// The decoder reads the encoder's output, too, and gives it its gradient.
TEST(ShardCounts, T5) {
  const Graph whole = model::forward(tiny(model::Family::kT5), 4, 8);
  const Graph g = compiled(whole, false), sp = compiled(whole, true);
  EXPECT_EQ(counts(g, "encoder"), "2 AR 0 AG 0 RS | 2 AR 0 AG 0 RS");
  EXPECT_EQ(counts(sp, "encoder"), "0 AR 2 AG 2 RS | 0 AR 2 AG 2 RS");
  EXPECT_EQ(counts(g, "decoder"), "3 AR 0 AG 0 RS | 4 AR 0 AG 0 RS");
  EXPECT_EQ(counts(sp, "decoder"), "0 AR 4 AG 3 RS | 0 AR 3 AG 4 RS");
  EXPECT_EQ(counts(g, "bridge"), "1 AR 0 AG 0 RS | 0 AR 0 AG 0 RS");
  EXPECT_EQ(counts(sp, "bridge"), "0 AR 0 AG 1 RS | 0 AR 1 AG 0 RS");
}

// Attention and MLP read one norm and are added at once (as in GPT-J).
TEST(ShardCounts, OneNormIsGatheredOnce) {
  const model::ModelConfig m = tiny(model::Family::kNeox);
  Graph g = model::forward(m, 4, 8);
  const BlockId layer(1);
  // The MLP reads what attention reads.
  std::vector<Op>& ops = g.blocks[layer].forward;
  const auto norm = [&](const char* origin) {
    return std::find_if(ops.begin(), ops.end(), [&](const Op& op) { return op.origin == origin; });
  };
  const ValueId one = norm("layer.norm1")->outputs[0], two = norm("layer.norm2")->outputs[0];
  for (Op& op : ops) std::replace(op.inputs.begin(), op.inputs.end(), two, one);
  ops.erase(norm("layer.norm2"));
  EXPECT_EQ(counts(compiled(g, false), "layer"), "1 AR 0 AG 0 RS | 1 AR 0 AG 0 RS");
  EXPECT_EQ(counts(compiled(g, true), "layer"), "0 AR 1 AG 1 RS | 0 AR 1 AG 1 RS");
}

// Where the model divides nothing, tensor ranks that hold parts of the sequence still agree.
TEST(ShardCounts, DataAloneCommunicatesNothing) {
  for (const model::Family f : every_family()) {
    Graph g = model::forward(tiny(f), 4, 8);
    g.mesh[AxisKind::kReplica] = g.mesh[AxisKind::kShard] = 2;
    shard(g, Layout());
    differentiate(g);
    for (const Block& b : g.blocks) {
      EXPECT_EQ(counted(b.forward), "0 AR 0 AG 0 RS");
      EXPECT_EQ(counted(b.backward), "0 AR 0 AG 0 RS");
    }
    for (const Value& v : g.values) {
      if (v.role != Role::kGradient || v.name == "d_memory") continue;
      for (const AxisKind a : {AxisKind::kReplica, AxisKind::kShard})
        EXPECT_EQ(v.sharding.place[a], kPartial) << v.name;
    }
  }
}

// Gradients that are complete, and those that are sums over tensor ranks, with the sequence
// divided.
TEST(ShardCounts, GradientsSayWhatIsLeftToReduce) {
  const auto place = [](const Graph& g, const std::string& name) -> int {
    for (const Value& v : g.values)
      if (v.name == name + ".gradient") return v.sharding.place[AxisKind::kTensor];
    return -100;
  };
  const Graph whole = model::forward(tiny(model::Family::kGpt2), 4, 8);
  const Graph g = compiled(whole, false), sp = compiled(whole, true);
  for (const char* name : {"layer.norm1.gain", "layer.norm2.bias", "layer.attn.out.bias",
                           "layer.mlp.down.bias", "embed.position.weight", "head.norm.gain"}) {
    EXPECT_EQ(place(g, name), kReplicated) << name;
    EXPECT_EQ(place(sp, name), kPartial) << name;
  }
  for (const Graph* each : {&g, &sp}) {
    EXPECT_EQ(place(*each, "layer.attn.qkv.weight"), 0);
    EXPECT_EQ(place(*each, "layer.attn.qkv.bias"), 0);
    EXPECT_EQ(place(*each, "layer.attn.out.weight"), 1);
    EXPECT_EQ(place(*each, "layer.mlp.up.weight"), 0);
    EXPECT_EQ(place(*each, "layer.mlp.down.weight"), 1);
    EXPECT_EQ(place(*each, "embed.weight"), 0);
  }
}

}  // namespace
}  // namespace tessera::compile

// Models on all ranks of a mesh against the same on one rank: the loss and every gradient.
#include <gtest/gtest.h>

#include <cmath>

#include "base/config.h"
#include "base/philox.h"
#include "compile/compile.h"
#include "compile/graph/graph_passes.h"
#include "ir/print.h"
#include "ir/signature.h"
#include "ir/verify.h"
#include "model/forward.h"
#include "model/presets.h"
#include "runtime/initialize.h"
#include "tests/compile/shard_trial.h"
#include "tests/every_family.h"

namespace tessera::testing {
namespace {

class EveryFamily : public ::testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Shard, EveryFamily, ::testing::ValuesIn(every_family()),
                         [](const auto& f) { return name_of_entry(f.param); });
TEST_P(EveryFamily, ComputesTheSameOnAllMeshes) { on_all_meshes(of(GetParam())); }

// Norms of DoRA add over ranks that divide the inputs of a weight.
TEST(Shard, Adapters) {
  for (const model::Family f : {model::Family::kGpt2, model::Family::kLlama})
    for (const compile::AdapterKind kind :
         {compile::AdapterKind::kLora, compile::AdapterKind::kDora}) {
      Trial s = of(f);
      s.adapters.rank = 3;
      s.adapters.alpha = 6;
      s.adapters.kind = kind;
      if (f == model::Family::kLlama) s.adapters.targets = {"v_proj", "o_proj", "gate_proj"};
      on_all_meshes(s);
    }
}

TEST(Shard, UntiedAndSequentialResidual) {
  Trial s = of(model::Family::kGpt2);
  s.model.tied_embeddings = false;
  on_all_meshes(s);
  s = of(model::Family::kNeox);
  s.model.tied_embeddings = true;
  s.model.parallel_residual = false;
  on_all_meshes(s);
  s = of(model::Family::kLlama);
  s.model.tied_embeddings = true;
  s.model.rope_scaling.factor = 8;
  s.model.rope_scaling.original_max_position_embeddings = kTokens;
  on_all_meshes(s);
}

// Only causal attention is ever unfused.
compile::AttentionKind unfused_attention(model::Family f) {
  return model::rule_of(f).has_encoder ? compile::AttentionKind::kFused
                                       : compile::AttentionKind::kUnfused;
}

TEST(Shard, Dropout) {
  for (const model::Family f : every_family())
    for (const compile::AttentionKind a : {compile::AttentionKind::kFused, unfused_attention(f)}) {
      Trial s = of(f);
      s.model.dropout = s.model.attention_dropout = 0.2;
      s.options.attention = a;
      on_all_meshes(s);
    }
}

TEST(Shard, UnfusedParts) {
  for (const model::Family f : every_family()) {
    Trial s = of(f);
    s.options.attention = unfused_attention(f);
    s.options.cross_entropy = compile::CrossEntropyKind::kUnfused;
    s.options.fuse_bias_gelu = s.options.fuse_residual_norm = false;
    on_all_meshes(s);
  }
}

TEST(Shard, RecomputeSelective) {
  for (const model::Family f : every_family()) {
    Trial s = of(f);
    s.model.dropout = 0.1;
    s.selective = true;
    on_all_meshes(s);
  }
}

TEST(Shard, Bf16) {
  for (const model::Family f : every_family()) {
    Trial s = of(f);
    s.type = DType::kBF16;
    on_all_meshes(s);
  }
}

TEST(Shard, ThreeAndSixRanks) {
  for (const model::Family f : every_family()) {
    Trial s = of(f);
    s.model.hidden = model::rule_of(f).supports_gqa ? 96 : 48;
    s.model.heads = s.model.hidden / 8;
    s.model.kv_heads = 6;
    s.model.feed_forward = 96;
    for (const int64_t tensor : {3, 6}) {
      s.tensor = tensor;
      s.sequence_parallel = false;
      s.name = text(s);
      expect_equal(s);
    }
    s.tensor = 3;
    s.shard = 2;
    expect_equal(s);
  }
}

// More ranks than key/value heads, or than divide them: each head is on several ranks.
TEST(Shard, CopiesOfKeyValueHeads) {
  struct Heads {
    int64_t heads, kv_heads, tensor;
  };
  for (const model::Family f : {model::Family::kLlama, model::Family::kQwen2})
    for (const Heads h :
         {Heads{8, 1, 2}, {8, 2, 4}, {8, 1, 8}, {8, 4, 8}, {12, 2, 6}, {12, 6, 4}, {12, 4, 6}})
      for (const bool sp : {false, true}) {
        Trial s = of(f);
        s.model.heads = h.heads;
        s.model.kv_heads = h.kv_heads;
        s.model.hidden = 8 * h.heads;
        s.model.feed_forward = 96;
        s.model.dropout = s.model.attention_dropout = 0.1;
        s.tensor = h.tensor;
        s.shard = h.tensor < 6 ? 2 : 1;
        s.sequence_parallel = sp;
        s.selective = sp;
        s.options.attention =
            sp ? compile::AttentionKind::kUnfused : compile::AttentionKind::kFused;
        s.name = fmt::format("{} of {} heads, {}", h.heads, h.kv_heads, text(s));
        expect_equal(s);
      }
}

struct ContextWay {
  compile::ContextMethod method;
  bool balance;
};
constexpr ContextWay kContextWays[] = {{compile::ContextMethod::kGather, false},
                                       {compile::ContextMethod::kGather, true},
                                       {compile::ContextMethod::kHeads, false},
                                       {compile::ContextMethod::kRing, false},
                                       {compile::ContextMethod::kRing, true}};

Trial with_context(Trial s, const ContextWay& way, int64_t context, int64_t tensor) {
  s.method = way.method;
  s.balance = way.balance;
  s.context = context;
  s.tensor = tensor;
  s.name = fmt::format("{} context {} {}{}, {}", name_of_entry(s.model.family), context,
                       name_of_entry(way.method), way.balance ? " balanced" : "", text(s));
  return s;
}

class EveryDecoder : public ::testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Shard, EveryDecoder, ::testing::ValuesIn(every_decoder()),
                         [](const auto& f) { return name_of_entry(f.param); });

// Every way to divide the tokens of a sequence, with dropout, whose random numbers are those of one
// rank, and together with tensor-parallel ranks, which have some of the heads before an all-to-all.
TEST_P(EveryDecoder, ComputesTheSameWithDividedSequences) {
  for (const ContextWay& way : kContextWays)
    for (const auto& [context, tensor] : {std::pair<int64_t, int64_t>{4, 1}, {2, 2}}) {
      Trial s = of(GetParam());
      s.model.dropout = s.model.attention_dropout = 0.1;
      // With a ring and dropout, blocks must have a multiple of four tokens.
      if (way.method == compile::ContextMethod::kRing &&
          kTokens / context / (way.balance ? 2 : 1) % 4 != 0)
        s.model.attention_dropout = 0;
      s.sequence_parallel = s.selective = tensor > 1;
      expect_equal(with_context(s, way, context, tensor));
    }
}

TEST(Shard, DividedSequencesWithWindowsDocumentsAndCaps) {
  for (const ContextWay& way : kContextWays) {
    Trial s = of(model::Family::kLlama);
    s.model.window = 3;
    s.documents = true;
    expect_equal(with_context(s, way, 2, 2));
    s = of(model::Family::kGemma2);
    s.model.attention_soft_cap = 0.5;
    s.shard = 2;
    expect_equal(with_context(s, way, 2, 1));
    s = of(model::Family::kGptOss);  // with sinks
    s.documents = true;
    expect_equal(with_context(s, way, 2, 2));
  }
}

// With an all-to-all, a key/value head is on several ranks if there are fewer of them than ranks.
TEST(Shard, ExchangedCopiesOfKeyValueHeads) {
  struct Heads {
    int64_t heads, kv_heads, context, tensor;
  };
  for (const Heads h : {Heads{8, 1, 2, 1}, {8, 2, 4, 1}, {8, 2, 2, 2}, {8, 4, 2, 4}, {12, 4, 2, 3}})
    for (const bool sp : {false, true}) {
      Trial s = of(model::Family::kQwen2);
      s.model.heads = h.heads;
      s.model.kv_heads = h.kv_heads;
      s.model.hidden = 8 * h.heads;
      s.model.feed_forward = 96;
      s.model.dropout = s.model.attention_dropout = 0.1;
      s.sequence_parallel = sp && kTokens % (h.context * h.tensor) == 0;
      s = with_context(s, {compile::ContextMethod::kHeads, false}, h.context, h.tensor);
      s.name += fmt::format(" {} of {} heads", h.heads, h.kv_heads);
      expect_equal(s);
    }
}

// The tokens of a sequence are not a multiple of the tensor-parallel ranks: parts have padding, and
// of 5 or 9 tokens on 4 ranks the last part is empty.
TEST_P(EveryFamily, DividesSequencesOfAnyLength) {
  struct Lengths {
    int64_t tokens, source, tensor;
  };
  for (const Lengths n : {Lengths{7, 5, 2}, {7, 9, 4}, {5, 7, 4}, {3, 2, 4}})
    for (const bool selective : {false, true}) {
      Trial s = of(GetParam());
      s.tokens = n.tokens;
      s.source = n.source;
      s.tensor = n.tensor;
      s.model.dropout = s.model.attention_dropout = selective ? 0.1 : 0;
      s.selective = selective;
      s.shard = selective ? 2 : 1;
      s.name = fmt::format("{} and {} tokens, {}", n.tokens, n.source, text(s));
      expect_equal(s);
    }
}

// With any one collective left out, the loss or a gradient is wrong: none is there for nothing, and
// the comparison above would see it.
void expect_collectives_matter(const Trial& s) {
  Graph g = built(s);
  const Results right = run(s, g);
  for (Block& b : g.blocks)
    for (std::vector<Op>* ops : {&b.forward, &b.backward})
      for (Op& op : *ops) {
        // The head's forward runs inside its backward.
        GroupRef* const over = over_of(op.attributes);
        if (over == nullptr || (b.loss && ops == &b.forward)) continue;
        if (op.is<Slice>() || op.is<Pad>()) continue;
        const Op kept = op;
        *over = GroupRef();
        double most = 0;
        for (const auto& [name, wrong] : run(s, g))
          most = std::max(most, distance(wrong, right.at(name)));
        EXPECT_GT(most, 1e-3) << text(s) << " " << b.name << " " << op.origin;
        op = kept;
      }
}

TEST(Shard, EveryCollectiveMatters) {
  for (const model::Family f : {model::Family::kGpt2, model::Family::kNeox})
    for (const bool sp : {false, true}) {
      Trial s = of(f);
      s.tensor = 2;
      s.sequence_parallel = sp;
      expect_collectives_matter(s);
    }
}

TEST(Shard, EveryCollectiveOfDividedSequencesMatters) {
  for (const ContextWay& way : kContextWays)
    expect_collectives_matter(with_context(of(model::Family::kNeox), way, 2, 1));
}

// Context ranks have the heads of their tensor rank, and with a zigzag cut an early and a late
// chunk. If attention or a collective has another order of the same parts, a gradient is wrong.
TEST(Shard, TheOrderOfPartsMatters) {
  for (const ContextWay& way : {kContextWays[1], kContextWays[2]}) {
    Trial s = with_context(of(model::Family::kNeox), way, 2, 2);
    s.model.attention_dropout = 0.2;
    Graph g = built(s);
    const Results right = run(s, g);
    int tried = 0;
    for (Block& b : g.blocks)
      for (const Op& op : b.forward) {
        const GroupRef* const over = over_of(op.attributes);
        if (!op.is<Attention>() && (over == nullptr || !over->has(AxisKind::kContext))) continue;
        ContextCut& cut = g[op.inputs[0]].sharding.cut;
        if (cut == ContextCut::kParts) continue;
        const ContextCut kept = std::exchange(cut, ContextCut::kParts);
        double most = 0;
        for (const auto& [name, wrong] : run(s, g))
          most = std::max(most, distance(wrong, right.at(name)));
        EXPECT_GT(most, 1e-3) << s.name << " " << op.origin;
        cut = kept;
        ++tried;
      }
    EXPECT_EQ(tried, 2) << s.name;
  }
}

TEST(Shard, OneRankChangesNothing) {
  for (const model::Family f : every_family()) {
    Graph g = model::forward(tiny(f), kSequences, kTokens);
    const Graph before = g;
    compile::shard(g, compile::Layout());
    ASSERT_EQ(g.values.size(), before.values.size());
    for (const BlockId b : g.blocks.ids()) EXPECT_EQ(g.blocks[b], before.blocks[b]);
    for (const Value& v : g.values) {
      EXPECT_EQ(v.sharding, Sharding()) << v.name;
      EXPECT_FALSE(v.part.has_value()) << v.name;
    }
  }
}

}  // namespace
}  // namespace tessera::testing

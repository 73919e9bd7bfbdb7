// Whole models, divided over a mesh and executed by all its ranks in lockstep, against the same
// model on one rank: the loss and every gradient.
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
#include "runtime/initialise.h"
#include "tests/compile/lockstep.h"
#include "tests/every_family.h"

namespace tessera::testing {
namespace {

struct Trial {
  model::ModelConfig model;
  int64_t replica = 1, shard = 1, tensor = 1, context = 1;
  compile::ContextMethod method = compile::ContextMethod::kGather;
  bool balance = false, documents = false;
  bool sequence_parallel = true, selective = false;
  compile::CompilerOptions options;
  DType type = DType::kF32;
  compile::AdapterPolicy adapters = {};
  std::string name = {};
};

constexpr int64_t kSequences = 4, kTokens = 8;
const std::vector<model::Family> kFamilies = every_family();

model::ModelConfig tiny(model::Family family) {
  model::ModelConfig m;
  model::apply_family(family, m);
  const bool grouped = model::rule_of(family).supports_gqa;
  m.layers = 2;
  m.hidden = grouped ? 64 : 32;
  m.heads = grouped ? 8 : 4;
  m.kv_heads = 4;
  m.vocabulary = 53;  // divides by nothing
  m.vocabulary_multiple = 1;
  m.context = kTokens;
  m.tied_embeddings = family == model::Family::kGpt2;
  m.init = m.output_init = model::Initialiser::kNormal;
  m.init_std = 0.1;
  if (model::rule_of(family).has_encoder) m.encoder_layers = 2;
  model::derive_sizes(m);
  return m;
}

compile::Layout layout_of(const Trial& s) {
  compile::Layout layout;
  layout.tensor = s.tensor;
  layout.context = s.context;
  layout.context_method = s.method;
  layout.context_balance = s.balance;
  layout.sequence_parallel = s.sequence_parallel;
  return layout;
}

int64_t copies_in(const Trial& s) { return compile::head_copies(s.model, layout_of(s)); }

Mesh mesh_of(const Trial& s) {
  Mesh m = compile::mesh_of(layout_of(s), copies_in(s));
  m[AxisKind::kReplica] = s.replica;
  m[AxisKind::kShard] = s.shard;
  return m;
}

// As compile() does before it lays anything out.
Graph built(const Trial& s) {
  const int64_t source = s.model.encoder_layers > 0 ? kTokens : 0;
  Graph g = model::forward(s.model, {kSequences, kTokens, source, s.documents, copies_in(s)});
  g.mesh = mesh_of(s);
  compile::add_adapters(g, s.adapters, s.model);
  if (s.options.cross_entropy == compile::CrossEntropyKind::kUnfused)
    compile::unfuse_cross_entropy(g);
  if (s.options.attention == compile::AttentionKind::kUnfused) compile::materialise_attention(g);
  if (s.type == DType::kBF16) compile::apply_precision(g, compile::Precision::kBf16);
  if (s.context > 1 && s.method == compile::ContextMethod::kGather) compile::gather_keys(g);
  compile::shard(g, layout_of(s));
  for (const std::string& finding : verify(g)) ADD_FAILURE() << s.name << ": " << finding;
  if (s.options.fuse_bias_gelu) compile::fuse_bias_gelu(g);
  compile::differentiate(g);
  for (const std::string& finding : verify(g)) ADD_FAILURE() << s.name << ": " << finding;
  compile::remove_mark_shared(g);
  if (s.selective) compile::recompute_selective(g);
  if (s.options.fuse_residual_norm) compile::fuse_residual_norm(g);
  compile::remove_dead_ops(g);
  return g;
}

// A number for (name, element), the same on every mesh.
double drawn(const std::string& name, int64_t element) {
  const uint64_t w = Philox{hash_name(name)}.word(static_cast<uint64_t>(element));
  return static_cast<double>(w >> 11) / static_cast<double>(uint64_t{1} << 53) * 2 - 1;
}

// The elements of a value of what it is a part of, in order.
std::vector<int64_t> known_elements(const Value& v) {
  std::vector<int64_t> elements;
  const Box box = whole_box(v.shape);
  for (const CheckpointBox& k : checkpoint_boxes(v, {box.begin, box.end}, box))
    runtime::each_run(checkpoint_shape(v), k.part.extents(), k.known,
                      [&](const runtime::ContiguousRange& s) {
                        for (int64_t i = 0; i < s.elements; ++i) elements.push_back(s.global + i);
                      });
  return elements;
}

Array contents(const Value& v, int64_t layer, const model::ModelConfig& m) {
  Array a(static_cast<size_t>(v.shape.elements()));
  const std::string name = checkpoint_name(v, layer);
  const std::vector<int64_t> known = known_elements(v);
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = drawn(name, known[i]);
    const auto id =
        static_cast<double>(static_cast<int64_t>((x + 1) / 2 * static_cast<double>(m.vocabulary)));
    if (v.role == Role::kTokens || v.role == Role::kSource)
      a[i] = id;
    else if (v.role == Role::kLabels)
      a[i] = i % 5 == 0 ? -100 : id;
    else if (v.role == Role::kPositions)
      a[i] = static_cast<double>(static_cast<int64_t>(i) % kTokens);
    else if (v.role == Role::kDocuments)
      a[i] = static_cast<int64_t>(i) % kTokens < 3 ? 0 : 1;
    else if (v.role == Role::kSamples)
      a[i] = static_cast<double>(100 + 7 * i);
    else if (v.name == "step")
      a[i] = i == kSeed ? 11 : i == kStepNumber ? 3 : 0;
    else
      a[i] = v.initial.constant + 0.15 * x;
  }
  return a;
}

// report, then each weight's gradient by full name.
using Results = std::map<std::string, Array>;

// Gradients of parts of a weight become that of the whole.
void join_parts(const Graph& g, int64_t layers, Results& out) {
  for (const Value& w : g.values) {
    if (!w.parent || w.role != Role::kWeight) continue;
    for (int64_t l = 0; l < layers; ++l) {
      const Array part = out.at(full_name(w, l) + ".gradient");
      out.erase(full_name(w, l) + ".gradient");
      Array& all = out[checkpoint_name(w, l) + ".gradient"];
      all.resize(static_cast<size_t>(w.parent->shape.elements()));
      const std::vector<int64_t> known = known_elements(w);
      for (size_t i = 0; i < part.size(); ++i) all[static_cast<size_t>(known[i])] = part[i];
    }
  }
}

Results run(const Trial& s, const Graph& g) {
  runtime::PreparedKernels kernels(CpuFeatures(), 1);
  Lockstep machine(g, kernels);
  std::map<ValueId, int64_t> layers;  // that a value has
  for (const ValueId i : g.values.ids()) {
    const Value& v = g.values[i];
    const bool given = v.role == Role::kWeight || is_batch(v.role) || v.role == Role::kStep;
    layers[i] = (v.indexed_by & kPerLayer) ? s.model.layers : 1;
    if (!given) continue;
    for (int64_t l = 0; l < layers[i]; ++l) machine.write(i, l, contents(v, l, s.model));
  }
  machine.run();
  Results out;
  for (const auto& [v, count] : layers) {
    if (g[v].role != Role::kGradient && g[v].role != Role::kReport) continue;
    for (int64_t l = 0; l < count; ++l) out[full_name(g[v], l)] = machine.read(v, l);
  }
  join_parts(g, s.model.layers, out);
  return out;
}

double distance(const Array& a, const Array& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / std::max(norm, 1e-30));
}

// How far bf16 itself is from fp32 on one rank, at most. Layouts round at other places, and two
// that are each as far from fp32 as that differ by up to twice as much.
double rounding(Trial alone, const Results& one) {
  alone.type = DType::kF32;
  double worst = 0;
  for (const auto& [name, exact] : run(alone, built(alone)))
    if (name != "report") worst = std::max(worst, distance(one.at(name), exact));
  return worst;
}

void expect_equal(const Trial& s) {
  Trial alone = s;
  alone.replica = alone.shard = alone.tensor = alone.context = 1;
  const Results one = run(alone, built(alone)), all = run(s, built(s));
  ASSERT_EQ(one.size(), all.size()) << s.name;
  const double bound = s.type == DType::kBF16 ? 2 * rounding(alone, one) : 1e-5;
  ASSERT_GT(one.at("report")[kLossSum], 0);
  for (const auto& [name, expected] : one) {
    ASSERT_TRUE(all.contains(name)) << s.name << " " << name;
    EXPECT_LE(distance(all.at(name), expected), bound) << s.name << " " << name;
  }
  EXPECT_EQ(one.at("report")[kLossTokens], all.at("report")[kLossTokens]) << s.name;
}

struct MeshSize {
  int64_t replica, shard, tensor;
};
constexpr MeshSize kMeshes[] = {{1, 1, 2}, {1, 1, 4}, {1, 2, 1}, {2, 2, 1},
                                {2, 1, 2}, {1, 2, 4}, {2, 2, 2}};

std::string text(const Trial& s) {
  return fmt::format("{} data {}x{} tensor {}{}", name_of_entry(s.model.family), s.replica, s.shard,
                     s.tensor, s.sequence_parallel ? " sp" : "");
}

void on_all_meshes(Trial s) {
  for (const MeshSize& m : kMeshes)
    for (const bool sp : {false, true}) {
      s.replica = m.replica;
      s.shard = m.shard;
      s.tensor = m.tensor;
      s.sequence_parallel = sp;
      s.name = text(s);
      expect_equal(s);
    }
}

Trial of(model::Family family) {
  Trial s;
  s.model = tiny(family);
  return s;
}

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
  for (const model::Family f : kFamilies)
    for (const compile::AttentionKind a : {compile::AttentionKind::kFused, unfused_attention(f)}) {
      Trial s = of(f);
      s.model.dropout = s.model.attention_dropout = 0.2;
      s.options.attention = a;
      on_all_meshes(s);
    }
}

TEST(Shard, UnfusedParts) {
  for (const model::Family f : kFamilies) {
    Trial s = of(f);
    s.options.attention = unfused_attention(f);
    s.options.cross_entropy = compile::CrossEntropyKind::kUnfused;
    s.options.fuse_bias_gelu = s.options.fuse_residual_norm = false;
    on_all_meshes(s);
  }
}

TEST(Shard, RecomputeSelective) {
  for (const model::Family f : kFamilies) {
    Trial s = of(f);
    s.model.dropout = 0.1;
    s.selective = true;
    on_all_meshes(s);
  }
}

TEST(Shard, Bf16) {
  for (const model::Family f : kFamilies) {
    Trial s = of(f);
    s.type = DType::kBF16;
    on_all_meshes(s);
  }
}

TEST(Shard, ThreeAndSixRanks) {
  for (const model::Family f : kFamilies) {
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
        s.sequence_parallel = sp && kTokens % h.tensor == 0;
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
                                       {compile::ContextMethod::kHeads, false}};

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
  for (const model::Family f : kFamilies) {
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

#include "tests/compile/shard_trial.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/config.h"
#include "base/philox.h"
#include "compile/compile.h"
#include "compile/graph/graph_passes.h"
#include "ir/print.h"
#include "ir/signature.h"
#include "ir/verify.h"
#include "model/family.h"
#include "model/forward.h"
#include "model/presets.h"
#include "runtime/initialize.h"

namespace tessera::testing {

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
  m.init = m.output_init = model::Initializer::kNormal;
  m.init_std = 0.1;
  if (model::rule_of(family).has_encoder) m.encoder_layers = 2;
  model::derive_sizes(m);
  return m;
}

namespace {

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

}  // namespace

// As compile() does before it lays anything out.
Graph built(const Trial& s) {
  const int64_t source = s.model.encoder_layers > 0 ? s.source : 0;
  Graph g = model::forward(s.model, {kSequences, s.tokens, source, s.documents, copies_in(s)});
  g.mesh = mesh_of(s);
  compile::add_adapters(g, s.adapters, s.model);
  if (s.options.cross_entropy == compile::CrossEntropyKind::kUnfused)
    compile::unfuse_cross_entropy(g);
  if (s.options.attention == compile::AttentionKind::kUnfused) compile::materialize_attention(g);
  if (s.type == DType::kBF16) compile::apply_precision(g, compile::Precision::kBf16);
  const bool rings = s.context > 1 && s.method == compile::ContextMethod::kRing;
  if (s.context > 1 && s.method != compile::ContextMethod::kHeads)
    compile::gather_keys(g, rings ? s.context : 0);
  compile::shard(g, layout_of(s));
  for (const std::string& finding : verify(g)) ADD_FAILURE() << s.name << ": " << finding;
  if (s.options.fuse_bias_gelu) compile::fuse_bias_gelu(g);
  compile::differentiate(g);
  for (const std::string& finding : verify(g)) ADD_FAILURE() << s.name << ": " << finding;
  compile::remove_mark_shared(g);
  if (s.selective) compile::recompute_selective(g);
  if (s.options.fuse_residual_norm) compile::fuse_residual_norm(g);
  compile::remove_dead_ops(g);
  if (rings) compile::rotate_keys(g);
  return g;
}

namespace {

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

Array contents(const Value& v, int64_t layer, const Trial& s) {
  Array a(static_cast<size_t>(v.shape.elements()));
  const std::string name = checkpoint_name(v, layer);
  const std::vector<int64_t> known = known_elements(v);
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = drawn(name, known[i]);
    const auto id = static_cast<double>(
        static_cast<int64_t>((x + 1) / 2 * static_cast<double>(s.model.vocabulary)));
    if (v.role == Role::kTokens || v.role == Role::kSource)
      a[i] = id;
    else if (v.role == Role::kLabels)
      a[i] = i % 5 == 0 ? -100 : id;
    else if (v.role == Role::kPositions)
      a[i] = static_cast<double>(static_cast<int64_t>(i) % s.tokens);
    else if (v.role == Role::kDocuments)
      a[i] = static_cast<int64_t>(i) % s.tokens < 3 ? 0 : 1;
    else if (v.role == Role::kSamples)
      a[i] = static_cast<double>(100 + 7 * i);
    else if (v.name == "step")
      a[i] = i == kSeed ? 11 : i == kStepNumber ? 3 : 0;
    else
      a[i] = v.initial.constant + 0.15 * x;
  }
  return a;
}

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

}  // namespace

Results run(const Trial& s, const Graph& g) {
  runtime::PreparedKernels kernels(CpuFeatures(), 1);
  Lockstep machine(g, kernels);
  std::map<ValueId, int64_t> layers;  // that a value has
  for (const ValueId i : g.values.ids()) {
    const Value& v = g.values[i];
    const bool given = v.role == Role::kWeight || is_batch(v.role) || v.role == Role::kStep;
    layers[i] = (v.indexed_by & kPerLayer) ? s.model.layers : 1;
    if (!given) continue;
    for (int64_t l = 0; l < layers[i]; ++l) machine.write(i, l, contents(v, l, s));
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

namespace {

// How far bf16 itself is from fp32 on one rank, at most. Layouts round at other places, and two
// that are each as far from fp32 as that differ by up to twice as much.
double rounding(Trial alone, const Results& one) {
  alone.type = DType::kF32;
  double worst = 0;
  for (const auto& [name, exact] : run(alone, built(alone)))
    if (name != "report") worst = std::max(worst, distance(one.at(name), exact));
  return worst;
}

}  // namespace

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

namespace {

struct MeshSize {
  int64_t replica, shard, tensor;
};
constexpr MeshSize kMeshes[] = {{1, 1, 2}, {1, 1, 4}, {1, 2, 1}, {2, 2, 1},
                                {2, 1, 2}, {1, 2, 4}, {2, 2, 2}};

}  // namespace

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

}  // namespace tessera::testing

// Programs of a run whose weights have several optimizers: weight groups, their state and updates.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "compile/check/check.h"
#include "compile/compile.h"
#include "ir/op.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/rule.h"
#include "model/family.h"
#include "model/presets.h"
#include "tests/ir/small_request.h"

namespace tessera::compile {
namespace {

// AdamW for all but the embedding (Adafactor), norms (SGD without a moment) and MLPs (SGD with
// one).
CompileRequest grouped() {
  CompileRequest r = testing::small_request();
  OptimizerPolicy adafactor, sgd, momentum;
  adafactor.kind = OptimizerKind::kAdafactor;
  adafactor.beta1 = 0;
  sgd.kind = OptimizerKind::kSgd;
  sgd.beta1 = 0;
  sgd.rate_multiplier = 0.5;
  momentum.kind = OptimizerKind::kSgd;
  r.groups = {{{"embed.*"}, adafactor}, {{"*norm*"}, sgd}, {{"*.mlp.*"}, momentum}};
  return r;
}

// The group of each weight of a program, by what the name of its buffer kind ends with.
int64_t expected_policy(const std::string& weight) {
  if (weight.starts_with("embed.")) return 1;
  if (weight.find("norm") != weight.npos) return 2;
  return weight.find(".mlp.") != weight.npos ? 3 : 0;
}

TEST(OptimizerGroups, WeightsLiveWithThoseOfTheirOptimizer) {
  const Program p = compile(grouped(), {});
  std::set<int64_t> seen;
  for (const BufferKind& kind : p.kinds) {
    if (kind.values.empty() || p[kind.values[0]].role != Role::kWeight) continue;
    for (const ValueId v : kind.values) {
      const int64_t policy = expected_policy(p[v].name);
      EXPECT_EQ(p[v].policy, policy) << p[v].name;
      EXPECT_EQ(kind.name.find(".group") != kind.name.npos, policy != 0) << kind.name;
      if (policy != 0) {
        EXPECT_NE(kind.name.find(fmt::format(".group{}.", policy)), kind.name.npos) << kind.name;
      }
      seen.insert(policy);
    }
  }
  EXPECT_EQ(seen, (std::set<int64_t>{0, 1, 2, 3}));
}

TEST(OptimizerGroups, EachHasItsUpdateAndItsState) {
  const Program p = compile(grouped(), {});
  const std::map<int64_t, std::pair<std::string_view, size_t>> wanted = {
      {0, {"adamw", 3}}, {1, {"adafactor", 1}}, {2, {"sgd", 1}}, {3, {"sgd", 2}}};
  std::set<int64_t> seen;
  for (const Segment& s : p.segments)
    for (const Op& op : s.ops) {
      if (!rule_of(op).effects.updates_weights) continue;
      const int64_t policy = p[p.kind(members_of(op.attributes)).values[0]].policy;
      EXPECT_EQ(name_of(op.kind()), wanted.at(policy).first);
      EXPECT_EQ(op.outputs.size(), wanted.at(policy).second) << s.name();  // weights and moments
      if (policy != 1) {
        EXPECT_EQ(one_pass_of(op).update->rate, policy == 2 ? 0.5 : 1);
      }
      seen.insert(policy);
    }
  EXPECT_EQ(seen.size(), 4u);
}

// The norm of the gradient is that of all weights: one clip, after the squares of every group.
TEST(OptimizerGroups, ClippingIsOfAllGroupsTogether) {
  CompileRequest r = grouped();
  r.clip_norm = 0.25;
  const Program p = compile(r, {});
  std::set<int64_t> squared;
  int clips = 0;
  for (const Call& c : p.schedule)
    for (const Op& op : p.segment(c).ops) {
      if (const Clip* clip = op.if_as<Clip>()) {
        ++clips;
        EXPECT_EQ(clip->norm, 0.25);
        EXPECT_EQ(squared.size(), 4u);
      }
      if (op.is<Squares>()) squared.insert(p[p.kind(members_of(op.attributes)).values[0]].policy);
    }
  EXPECT_EQ(clips, 1);
}

TEST(OptimizerGroups, TextComesBack) {
  CompileRequest r = grouped();
  for (const int64_t zero : {0, 1, 3}) {
    r.layout.data = 2;
    r.layout.zero = zero;
    const Program p = compile(r, {});
    const std::string text = tessera::print(p);
    EXPECT_TRUE(parse_program(text, "text") == p);
    EXPECT_NE(text.find("policy=3"), text.npos);
  }
}

// Every group under every ZeRO stage, with tensor and pipeline ranks and tied embeddings, which
// two stages hold.
TEST(OptimizerGroups, ProgramsOfAllLayoutsAreProven) {
  for (const model::Family family :
       {model::Family::kGpt2, model::Family::kLlama, model::Family::kT5})
    for (const int64_t zero : {0, 1, 2, 3}) {
      CompileRequest r = grouped();
      model::apply_family(family, r.model);
      r.model.tied_embeddings = family == model::Family::kGpt2;
      if (model::rule_of(family).has_encoder) {
        r.model.encoder_layers = 2;
        r.encoder_tokens = 32;
      }
      model::derive_sizes(r.model);
      r.layout.data = 2;
      r.layout.tensor = 2;
      r.layout.pipeline = 2;
      r.layout.zero = zero;
      for (const std::string& fault : prove(compile_stages(r, {})))
        ADD_FAILURE() << name_of_entry(family) << " zero " << zero << ": " << fault;
    }
}

CompileRequest latent_muon(model::Family family) {
  CompileRequest r = testing::small_request();
  model::apply_family(family, r.model);
  r.model.latent = {
      .query_rank = 12, .key_value_rank = 16, .nope_width = 8, .rope_width = 4, .value_width = 6};
  r.model.experts = 4;
  r.model.shared_feed_forward = 16;
  model::derive_sizes(r.model);
  r.optimizer.kind = OptimizerKind::kMuon;
  r.layout.tensor = 2;
  return r;
}

// Returns the names of the matrices in groups of Muon whose directions are summed over tensor
// ranks, or of those in all its other groups.
std::set<std::string> matrices_summed(const Program& p, bool summed) {
  std::set<BufferKindId> over_tensor;
  for (const Call& c : p.schedule) {
    if (p.segment(c).phase != Phase::kSumDirection || !c.comm.over.has(AxisKind::kTensor)) continue;
    for (const BufferId b : c.buffers) over_tensor.insert(p.buffer(b).kind);
  }
  std::set<std::string> names;
  for (const Segment& s : p.segments)
    for (const Op& op : s.ops) {
      if (!op.is<MuonDirection>()) continue;
      const BufferKindId directions = p[op.outputs[MuonDirection::kDirections]].buffer;
      if (over_tensor.contains(directions) != summed) continue;
      for (const ValueId w : p.kind(members_of(op.attributes)).values) names.insert(p[w].name);
    }
  return names;
}

// All tensor ranks have the down projections of latent attention.
TEST(OptimizerGroups, DirectionsOfReplicatedMatricesAreNotSummed) {
  for (const bool parallel : {false, true}) {
    CompileRequest r = latent_muon(model::Family::kDeepseekV3);
    r.layout.sequence_parallel = parallel;
    const Program p = compile(r, {});
    EXPECT_EQ(matrices_summed(p, false),
              (std::set<std::string>{"layer.attn.q_down.weight", "layer.attn.kv_down.weight",
                                     "layer.attn.k_rope.weight"}));
    EXPECT_EQ(matrices_summed(p, true),
              (std::set<std::string>{"layer.attn.q_up.weight", "layer.attn.kv_up.weight",
                                     "layer.attn.out.weight", "layer.mlp.experts.up.weight",
                                     "layer.mlp.experts.down.weight", "layer.mlp.shared.up.weight",
                                     "layer.mlp.shared.down.weight"}));
  }
}

TEST(OptimizerGroups, ProgramsOfLatentAttentionWithMuonAreProven) {
  for (const model::Family family : {model::Family::kDeepseekV2, model::Family::kDeepseekV3})
    for (const int64_t zero : {0, 1, 2, 3}) {
      CompileRequest r = latent_muon(family);
      r.groups = {{{"*.router.weight"}, r.optimizer}};
      r.layout.data = r.layout.expert = 2;
      r.layout.pipeline = 2;
      r.layout.zero = zero;
      r.layout.sequence_parallel = zero < 2;
      const std::vector<Program> stages = compile_stages(r, {});
      for (const std::string& fault : prove(stages))
        ADD_FAILURE() << name_of_entry(family) << " zero " << zero << ": " << fault;
      EXPECT_TRUE(parse_program(tessera::print(stages[0]), "text") == stages[0]);
    }
}

// A replicated matrix among divided ones would be counted once per tensor rank.
TEST(OptimizerGroups, ASumOfAReplicatedMatrixIsFound) {
  CompileRequest r = latent_muon(model::Family::kDeepseekV3);
  r.layout.sequence_parallel = false;
  Program p = compile(r, {});
  EXPECT_TRUE(check({&p}).empty());
  for (Value& v : p.values)
    if (v.name == "layer.mlp.shared.down.weight" && v.role == Role::kWeight)
      v.sharding.place[AxisKind::kTensor] = kReplicated;
  std::string all;
  for (const Finding& f : check({&p})) all += f.text + "\n";
  EXPECT_NE(all.find("over tensor, which divides only some of its matrices"), all.npos) << all;
}

TEST(OptimizerGroups, FrozenWeightsKeepNoState) {
  CompileRequest r = grouped();
  r.frozen = {"embed.*"};
  const Program p = compile(r, {});
  for (const BufferKind& kind : p.kinds)
    EXPECT_EQ(kind.name.find("group1"), kind.name.npos) << kind.name;
}

}  // namespace
}  // namespace tessera::compile

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

TEST(OptimizerGroups, FrozenWeightsKeepNoState) {
  CompileRequest r = grouped();
  r.frozen = {"embed.*"};
  const Program p = compile(r, {});
  for (const BufferKind& kind : p.kinds)
    EXPECT_EQ(kind.name.find("group1"), kind.name.npos) << kind.name;
}

}  // namespace
}  // namespace tessera::compile

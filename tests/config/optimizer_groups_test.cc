// optimizer.groups of the run file: what a group inherits, and what is refused.
#include <gtest/gtest.h>

#include "config/run_request.h"
#include "tests/config/optimizer_groups.h"

namespace tessera::config {
namespace {

constexpr const char* kRun =
    "model: { layers: 1, hidden: 32, heads: 2, vocabulary: 16, context: 8 }\n"
    "data: { train: [none] }\n"
    "batch: { global: 2, micro: 1 }\n"
    "optimizer:\n"
    "  beta1: 0.8\n"
    "  weight_decay: 0.3\n"
    "  groups:\n"
    "    - { match: [embed.*], learning_rate_multiplier: 0.5, beta2: 0.5 }\n"
    "    - { match: ['*norm*'], kind: sgd, weight_decay_applies_to: all }\n";

RunConfig read(const std::string& text, std::vector<std::string> overrides = {}) {
  RunConfig c = read_run(parse_yaml(text, "run.yaml"), "run.yaml", overrides);
  validate(c, DataUse::kIgnored);
  validate_names(c);
  return c;
}

std::string refusal(const std::string& groups) {
  try {
    read(kRun, {"optimizer.groups=" + groups});
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(OptimizerGroups, InheritWhatTheyDoNotGive) {
  const RunConfig c = read(kRun);
  const compile::CompileRequest r = compile_request(c, compile::ProgramKind::kTrain);
  ASSERT_EQ(r.groups.size(), 2u);
  const compile::OptimizerPolicy& embed = r.groups[0].policy;
  EXPECT_EQ(embed.kind, OptimizerKind::kAdamW);
  EXPECT_EQ(embed.beta1, 0.8);
  EXPECT_EQ(embed.beta2, 0.5);
  EXPECT_EQ(embed.weight_decay, 0.3);
  EXPECT_EQ(embed.rate_multiplier, 0.5);
  EXPECT_FALSE(embed.decays_vectors);
  const compile::OptimizerPolicy& norms = r.groups[1].policy;  // another kind has its own defaults
  EXPECT_EQ(norms.kind, OptimizerKind::kSgd);
  EXPECT_EQ(norms.beta1, optimizer_defaults(OptimizerKind::kSgd).beta1);
  EXPECT_EQ(norms.weight_decay, 0);
  EXPECT_TRUE(norms.decays_vectors);
  EXPECT_EQ(norms.rate_multiplier, 1);
}

TEST(OptimizerGroups, HaveTheirOwnMomentDtype) {
  const RunConfig c =
      read(kRun, {"optimizer.moment_dtype=8bit",
                  "optimizer.groups=[{match: [embed.*], moment_dtype: fp32}, {match: ['*norm*']}, "
                  "{match: ['*.mlp.*'], kind: adafactor, moment_dtype: auto}]"});
  const compile::CompileRequest r = compile_request(c, compile::ProgramKind::kTrain);
  EXPECT_EQ(r.optimizer.moments, DType::kU8);
  EXPECT_EQ(r.groups[0].policy.moments, DType::kF32);
  EXPECT_EQ(r.groups[1].policy.moments, DType::kU8);
  EXPECT_EQ(r.groups[2].policy.moments, DType::kF32);
}

TEST(OptimizerGroups, RejectMomentsIn8BitsThatTheirKindHasNot) {
  const auto expect = [](const std::vector<std::string>& overrides,
                         const std::vector<std::string>& parts) {
    try {
      read(kRun, overrides);
      FAIL() << overrides.back();
    } catch (const Error& e) {
      const std::string message = e.what();
      for (const std::string& part : parts)
        EXPECT_NE(message.find(part), message.npos) << part << " in " << message;
    }
  };
  for (const char* kind : {"adafactor", "schedule_free", "muon"}) {
    expect({"optimizer.groups=[]", "optimizer.moment_dtype=8bit",
            std::string("optimizer.kind=") + kind},
           {"optimizer.moment_dtype", std::string("optimizer.kind is ") + kind,
            "expected one of adamw, lion and sgd", "Set optimizer.moment_dtype to auto"});
    expect({"optimizer.moment_dtype=8bit",
            fmt::format("optimizer.groups=[{{match: [embed.*], kind: {}}}]", kind)},
           {"optimizer.groups[0].moment_dtype", std::string("the group's kind is ") + kind,
            "Add moment_dtype: fp32"});
  }
}

// The section's keys may come after its groups, and from the command line.
TEST(OptimizerGroups, InheritWhatAnOverrideGives) {
  const RunConfig c = read(kRun, {"optimizer.beta1=0.7", "optimizer.moment_dtype=bf16"});
  const compile::CompileRequest r = compile_request(c, compile::ProgramKind::kTrain);
  EXPECT_EQ(r.groups[0].policy.beta1, 0.7);
  EXPECT_EQ(r.groups[0].policy.moments, DType::kBF16);
  EXPECT_EQ(r.groups[1].policy.moments, DType::kBF16);  // of the section, whatever the kind
}

TEST(OptimizerGroups, ComeBackFromWhatARunWrites) {
  const RunConfig c = read(kRun);
  const Tree written = to_tree(c);
  RunConfig again;
  SourceLocations places;
  read_fields(fields_of(again), written, "run.yaml", places);
  EXPECT_TRUE(differences(to_tree(again), written).empty());
  EXPECT_EQ(again.optimizer.groups.size(), 2u);
  EXPECT_EQ(settings_of(again.optimizer.groups[0], again.optimizer).beta2, 0.5);
  RunConfig other = again;
  other.optimizer.groups = groups_of("[{match: [embed.*], beta2: 0.6}]");
  const std::vector<Change> changes = differences(to_tree(other), written);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].path, "optimizer.groups");
}

TEST(OptimizerGroups, TheFirstThatMatchesIsTaken) {
  OptimizerSection o;
  o.groups = groups_of("[{match: ['*.bias', embed.*]}, {match: ['*']}]");
  EXPECT_EQ(group_of(o, "layer.attn.qkv.bias"), 0u);
  EXPECT_EQ(group_of(o, "embed.weight"), 0u);
  EXPECT_EQ(group_of(o, "head.weight"), 1u);
  o.groups.pop_back();
  EXPECT_EQ(group_of(o, "head.weight"), std::nullopt);
}

TEST(OptimizerGroups, WrongOnesAreRefusedWithTheirPlace) {
  const auto expect = [](const std::string& groups, const std::string& part) {
    EXPECT_NE(refusal(groups).find(part), std::string::npos) << refusal(groups);
  };
  EXPECT_EQ(refusal("[{match: [embed.*]}]"), "");
  expect("[{kind: sgd}]", "command line: optimizer.groups: found a group without `match`");
  expect("[{match: [embed.*], kid: sgd}]", "kind");
  expect("[{match: [embed.*], kind: adamx}]", "optimizer.groups[0].kind: found the text 'adamx'");
  expect("[{match: [embed.*], clip_norm: 1}]", "clip_norm");
  expect("[{match: [embed.*]}, {match: [a], beta1: 2}]",
         "command line: optimizer.groups[1].beta1 = 2, expected a value in [0, ");
  expect("[{match: [embed.*], learning_rate_multiplier: -1}]",
         "optimizer.groups[0].learning_rate_multiplier = -1, expected");
  expect("[{match: [embd.weight]}]",
         "command line: optimizer.groups[0].match has 'embd.weight', which does not name a "
         "weight. Did you mean 'embed.weight'?");
  expect("sgd", "expected a list of {match");
  expect("[sgd]", "expected a list of {match");
  try {
    read(std::string(kRun) + "    - { match: [head.*], beta1: x }\n");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with("run.yaml:10:33: optimizer.groups[2].beta1"))
        << e.what();
  }
}

}  // namespace
}  // namespace tessera::config

#include "eval/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"

namespace tessera {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// How often each token comes up over evenly spread uniforms.
std::map<int32_t, double> shares(const std::vector<float>& logits, const SamplingOptions& o) {
  constexpr int kDraws = 10000;
  std::map<int32_t, double> out;
  for (int i = 0; i < kDraws; ++i) out[sample_token(logits, o, (i + 0.5) / kDraws)] += 1.0 / kDraws;
  return out;
}

TEST(ArgMax, TakesTheFirstOfEqualsAndNeverNan) {
  EXPECT_EQ(arg_max(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(arg_max(std::vector<float>{NAN, -5, NAN}), 1);
  EXPECT_EQ(arg_max(std::vector<float>{-kInf, -kInf}), 0);
}

TEST(SampleToken, FollowsTheSoftmax) {
  const auto p = shares({std::log(0.5f), std::log(0.2f), std::log(0.3f)}, {});
  EXPECT_NEAR(p.at(0), 0.5, 2e-4);
  EXPECT_NEAR(p.at(1), 0.2, 2e-4);
  EXPECT_NEAR(p.at(2), 0.3, 2e-4);
}

TEST(SampleToken, TemperatureSharpensAndZeroIsGreedy) {
  const std::vector<float> logits = {std::log(0.8f), std::log(0.2f)};
  EXPECT_NEAR(shares(logits, {.temperature = 0.5}).at(0), 0.64 / 0.68, 2e-4);
  EXPECT_EQ(shares(logits, {.temperature = 0}).size(), 1u);
  EXPECT_EQ(sample_token(logits, {.temperature = 0}, 0.999), 0);
}

TEST(SampleToken, TopKKeepsTheLargest) {
  const auto p = shares({1, 4, 2, 4}, {.top_k = 2});
  ASSERT_EQ(p.size(), 2u);
  EXPECT_NEAR(p.at(1), 0.5, 2e-4);
  EXPECT_NEAR(p.at(3), 0.5, 2e-4);
  EXPECT_EQ(shares({1, 4, 2, 4}, {.top_k = 1}).begin()->first, 1);
  EXPECT_EQ(shares({1, 4, 2, 4}, {.top_k = 9}).size(), 4u);
}

TEST(SampleToken, TopPKeepsTheShortestRowThatReachesIt) {
  const std::vector<float> logits = {std::log(0.2f), std::log(0.5f), std::log(0.3f)};
  EXPECT_EQ(shares(logits, {.top_p = 0.4}).size(), 1u);
  const auto p = shares(logits, {.top_p = 0.7});
  ASSERT_EQ(p.size(), 2u);
  EXPECT_NEAR(p.at(1), 0.625, 2e-4);
  EXPECT_NEAR(p.at(2), 0.375, 2e-4);
  EXPECT_EQ(shares(logits, {.top_p = 1e-9}).size(), 1u);
}

TEST(SampleToken, MaskedLogitsNeverComeUp) {
  EXPECT_EQ(shares({-kInf, 1, NAN, 2}, {}).size(), 2u);
  EXPECT_THROW(sample_token(std::vector<float>{NAN, -kInf}, {}, 0.5), Error);
}

TEST(SampleToken, HugeLogitsDoNotOverflow) {
  EXPECT_EQ(sample_token(std::vector<float>{3e38f, -3e38f}, {.temperature = 1e-3}, 0.99), 0);
}

TEST(Validate, NamesTheOption) {
  const auto message = [](const SamplingOptions& o) -> std::string {
    try {
      validate(o);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message({.temperature = -1}).find("temperature = -1"), std::string::npos);
  EXPECT_NE(message({.temperature = NAN}).find("temperature"), std::string::npos);
  EXPECT_NE(message({.top_k = -2}).find("top_k = -2"), std::string::npos);
  EXPECT_NE(message({.top_p = 0}).find("top_p = 0"), std::string::npos);
  EXPECT_NE(message({.top_p = 1.5}).find("top_p = 1.5"), std::string::npos);
  EXPECT_EQ(message({}), "");
}

TEST(SamplingUniform, IsAFunctionOfItsMeaning) {
  std::set<double> seen;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    for (uint64_t sequence = 0; sequence < 4; ++sequence) {
      for (uint64_t position = 0; position < 4; ++position) {
        const double u = sampling_uniform(seed, sequence, position);
        EXPECT_GE(u, 0);
        EXPECT_LT(u, 1);
        EXPECT_EQ(u, sampling_uniform(seed, sequence, position));
        seen.insert(u);
      }
    }
  }
  EXPECT_EQ(seen.size(), 64u);
}

}  // namespace
}  // namespace tessera

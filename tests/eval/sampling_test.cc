#include "eval/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/tree.h"

namespace tessera::eval {
namespace {

std::string message(const SamplingOptions& o) {
  try {
    validate(o);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Validate, NamesTheOption) {
  const auto of = [](const kernels::Sampling& s) { return message({.choice = s}); };
  EXPECT_NE(of({.temperature = -1}).find("temperature = -1"), std::string::npos);
  EXPECT_NE(of({.temperature = NAN}).find("temperature"), std::string::npos);
  EXPECT_NE(of({.top_k = -2}).find("top_k = -2"), std::string::npos);
  EXPECT_NE(of({.top_p = 0}).find("top_p = 0"), std::string::npos);
  EXPECT_NE(of({.top_p = 1.5}).find("top_p = 1.5"), std::string::npos);
  EXPECT_NE(of({.min_p = 1.5}).find("min_p = 1.5"), std::string::npos);
  EXPECT_NE(message({.repetition_penalty = 0}).find("repetition_penalty = 0"), std::string::npos);
  EXPECT_NE(message({.frequency_penalty = 3}).find("frequency_penalty = 3"), std::string::npos);
  EXPECT_NE(message({.presence_penalty = -3}).find("presence_penalty"), std::string::npos);
  EXPECT_NE(message({.logit_bias = {{1, 200}}}).find("logit_bias = 200"), std::string::npos);
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

double number_at(const Tree& t, const char* key, double otherwise) {
  const Tree* const x = t.find(key);
  return x == nullptr ? otherwise : *number_in(*x);
}

// By scripts/sampling_golden.py.
TEST(Sampler, ChoosesWhatAPlainImplementationChooses) {
  const Path file = Path(TESSERA_SOURCE) / "tests/eval/golden_sampling.json";
  const Tree cases = parse_json(read_file(file), file.string());
  int chosen = 0;
  for (const Tree& c : *cases.as_list()) {
    const Tree& o = *c.find("options");
    SamplingOptions options;
    options.choice.temperature = number_at(o, "temperature", 1);
    options.choice.top_k = static_cast<int64_t>(number_at(o, "top_k", 0));
    options.choice.top_p = number_at(o, "top_p", 1);
    options.choice.min_p = number_at(o, "min_p", 0);
    options.repetition_penalty = number_at(o, "repetition_penalty", 1);
    options.frequency_penalty = number_at(o, "frequency_penalty", 0);
    options.presence_penalty = number_at(o, "presence_penalty", 0);
    if (const Tree* const biases = o.find("logit_bias"))
      for (const auto& [id, bias] : *biases->as_members())
        options.logit_bias.emplace_back(std::stoi(id), *number_in(bias));
    std::vector<int32_t> prompt;
    for (const Tree& id : *c.find("prompt")->as_list())
      prompt.push_back(static_cast<int32_t>(*number_in(id)));
    Sampler sampler(options, 24);
    sampler.read(prompt);
    for (const Tree& s : *c.find("steps")->as_list()) {
      std::vector<float> logits;
      for (const Tree& z : *s.find("logits")->as_list())
        logits.push_back(static_cast<float>(*number_in(z)));
      const auto token = static_cast<int32_t>(*number_in(*s.find("token")));
      ASSERT_EQ(sampler.choose(logits, *number_in(*s.find("u"))), token) << to_json(o);
      ASSERT_NEAR(log_probability(logits, token), *number_in(*s.find("log_probability")), 1e-12);
      ++chosen;
    }
  }
  EXPECT_EQ(chosen, 12 * 20);
}

// By hand: logits 2, 1, -1, 0. The prompt has token 0, the output token 1 twice.
TEST(Sampler, AppliesPenaltiesInTheirOrder) {
  SamplingOptions o;
  o.choice.temperature = 0;
  o.repetition_penalty = 2;
  o.frequency_penalty = 1;
  o.presence_penalty = 0.5;
  Sampler s(o, 4);
  s.read(std::vector<int32_t>{0});
  // 2 / 2 = 1 of token 0 is below 5 of token 1.
  EXPECT_EQ(s.choose(std::vector<float>{2, 5, -1, 0}, 0), 1);
  // 5.5 / 2 - 1 - 0.5 = 1.25 of token 1 is above 2 / 2 = 1 of token 0.
  EXPECT_EQ(s.choose(std::vector<float>{2, 5.5, -1, 0}, 0), 1);
  // 6 / 2 - 2 - 0.5 = 0.5 of token 1 is below 2 / 2 = 1 of token 0.
  EXPECT_EQ(s.choose(std::vector<float>{2, 6, -1, 0}, 0), 0);
  // Token 0: 2 / 2 - 1 - 0.5 = -0.5; token 1: -1 · 2 - 2.5 = -4.5; tokens 2 and 3 are new.
  EXPECT_EQ(s.choose(std::vector<float>{2, -1, -1, 0}, 0), 3);
}

TEST(Sampler, ChoosesNeitherPaddingNorWhatIsForbidden) {
  SamplingOptions o;
  o.choice.temperature = 0;
  Sampler s(o, 3);
  EXPECT_EQ(s.choose(std::vector<float>{1, 3, 2, 9}, 0), 1);
  EXPECT_EQ(s.choose(std::vector<float>{1, 3, 2, 9}, 0, std::vector<int32_t>{1}), 2);
  EXPECT_THROW(s.choose(std::vector<float>{1, NAN, 2}, 0), NumericError);
}

TEST(MostProbable, ListsThemInOrderWithTheirLogarithms) {
  const std::vector<TokenProbability> top = most_probable(std::vector<float>{0, 2, 1, 2}, 3);
  ASSERT_EQ(top.size(), 3u);
  EXPECT_EQ(top[0].token, 1);
  EXPECT_EQ(top[1].token, 3);
  EXPECT_EQ(top[2].token, 2);
  const double sum = std::log(1 + 2 * std::exp(2.0) + std::exp(1.0));
  EXPECT_NEAR(top[0].log_probability, 2 - sum, 1e-12);
  EXPECT_NEAR(top[2].log_probability, 1 - sum, 1e-12);
  EXPECT_EQ(most_probable(std::vector<float>{0, 1}, 9).size(), 2u);
}

}  // namespace
}  // namespace tessera::eval

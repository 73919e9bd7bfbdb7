// Published models have the numbers of parameters that their authors give.
#include "model/presets.h"

#include <gtest/gtest.h>

namespace tessera::model {
namespace {

int64_t parameters(const char* preset) {
  ModelConfig m;
  EXPECT_TRUE(apply_preset(preset, m)) << preset;
  return parameter_count(m);
}

TEST(Presets, HaveThePublishedNumbersOfParameters) {
  const std::pair<const char*, int64_t> published[] = {
      {"pythia-14m", 14'067'712},           {"pythia-31m", 30'494'720},
      {"pythia-70m", 70'426'624},           {"pythia-160m", 162'322'944},
      {"pythia-410m", 405'334'016},         {"pythia-1b", 1'011'781'632},
      {"pythia-1.4b", 1'414'647'808},       {"pythia-2.8b", 2'775'208'960},
      {"pythia-6.9b", 6'857'302'016},       {"pythia-12b", 11'846'072'320},
      {"gpt-neox-20b", 20'554'567'680},     {"llama2-7b", 6'738'415'616},
      {"llama2-13b", 13'015'864'320},       {"llama2-70b", 68'976'648'192},
      {"llama3-8b", 8'030'261'248},         {"llama3-70b", 70'553'706'496},
      {"llama3.2-1b", 1'235'814'400},       {"llama3.2-3b", 3'212'749'824},
      {"hlat-7b", 6'738'415'616},           {"hlat-70b", 68'976'648'192},
      {"mt5-small", 300'176'768},           {"mt5-base", 582'401'280},
      {"mt5-large", 1'229'581'312},         {"mt5-xl", 3'742'619'648},
      {"mt5-xxl", 12'921'057'280},          {"t5-v1.1-small", 76'961'152},
      {"t5-v1.1-base", 247'577'856},        {"qwen2-0.5b", 494'032'768},
      {"qwen2-1.5b", 1'543'714'304},        {"qwen2-7b", 7'615'616'512},
      {"qwen2-72b", 72'706'203'648},        {"qwen2.5-3b", 3'085'938'688},
      {"qwen2.5-14b", 14'770'033'664},      {"qwen2.5-32b", 32'763'876'352},
      {"mistral-7b-v0.1", 7'241'732'096},   {"mistral-7b-v0.3", 7'248'023'552},
      {"mistral-nemo-12b", 12'247'782'400}, {"mistral-small-24b", 23'572'403'200},
      {"smollm3-3b", 3'075'098'624},        {"phi3-mini-4k", 3'821'079'552},
      {"phi3-medium-4k", 13'960'238'080},   {"phi4-14b", 14'659'507'200},
      {"qwen3-0.6b", 596'049'920},          {"qwen3-1.7b", 1'720'574'976},
      {"qwen3-4b", 4'022'468'096},          {"qwen3-8b", 8'190'735'360},
      {"qwen3-14b", 14'768'307'200},        {"qwen3-32b", 32'762'123'264},
      {"llama3.1-405b", 405'853'388'800},   {"qwen3-30b-a3b", 30'532'122'624},
      {"qwen3-235b-a22b", 235'093'634'560}, {"olmo2-1b", 1'484'916'736},
      {"olmo2-7b", 7'298'617'344},          {"olmo2-13b", 13'716'198'400},
      {"olmo2-32b", 32'234'279'936},        {"gemma2-2b", 2'614'341'888},
      {"gemma2-9b", 9'241'705'984},         {"gemma2-27b", 27'227'128'320},
      {"gemma3-1b", 999'885'952},           {"mixtral-8x7b", 46'702'792'704},
      {"mixtral-8x22b", 140'620'634'112},   {"deepseek-v2-lite", 15'706'484'224},
      {"deepseek-v2", 235'741'434'880},     {"deepseek-v3", 671'026'419'200},
      {"gpt-oss-20b", 20'914'757'184},      {"gpt-oss-120b", 116'829'156'672}};
  for (const auto& [name, number] : published) EXPECT_EQ(parameters(name), number) << name;
}

TEST(Presets, OfFrontierAreOfTheSizesInTheirNames) {
  EXPECT_NEAR(static_cast<double>(parameters("frontier-22b")), 22.07e9, 0.02e9);
  EXPECT_NEAR(static_cast<double>(parameters("frontier-175b")), 174.6e9, 0.2e9);
  EXPECT_NEAR(static_cast<double>(parameters("frontier-1t")), 1008.0e9, 1e9);
}

// A preset with fewer layers keeps the kinds of those that are left.
TEST(Presets, ListsOfLayersFollowTheNumberOfLayers) {
  ModelConfig m;
  ASSERT_TRUE(apply_preset("gemma2-2b", m));
  m.layers = 4;
  derive_sizes(m);
  EXPECT_EQ(m.window_layers, (std::vector<int64_t>{0, 2}));
  ASSERT_TRUE(apply_preset("smollm3-3b", m));
  m.layers = 9;
  m.no_rope_layers = {1, 20};  // a list of one's own stays, right or wrong
  derive_sizes(m);
  EXPECT_EQ(m.no_rope_layers, (std::vector<int64_t>{1, 20}));
}

TEST(Presets, AreAllWholeModels) {
  for (const std::string& name : preset_names()) {
    ModelConfig m;
    ASSERT_TRUE(apply_preset(name, m));
    EXPECT_EQ(m.preset, name);
    derive_sizes(m);
    EXPECT_TRUE(m.head_width > 0 || m.hidden % m.heads == 0) << name;
    EXPECT_EQ(m.heads % m.kv_heads, 0) << name;
    EXPECT_GT(parameter_count(m), 0) << name;
  }
  ModelConfig m;
  EXPECT_FALSE(apply_preset("llama9-7b", m));
}

}  // namespace
}  // namespace tessera::model

// The run files of published runs: each is read, and its batch is cut as its layout says.
#include <gtest/gtest.h>

#include "base/file.h"
#include "config/run_config.h"
#include "model/presets.h"
#include "train/load_run.h"
#include "train/run_programs.h"

namespace tessera::train {
namespace {

std::vector<Path> recipes() {
  std::vector<Path> found;
  for (const auto& entry : std::filesystem::directory_iterator(TESSERA_RECIPES))
    found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

TEST(Recipes, AreReadAndTheirBatchesCanBeCut) {
  const std::vector<Path> all = recipes();
  EXPECT_GE(all.size(), 23u);
  for (const Path& path : all) {
    SCOPED_TRACE(path.string());
    const config::RunConfig c = load_run(path, {});
    EXPECT_EQ(c.run.name, path.stem().string());
    EXPECT_EQ(c.batch.global % (c.batch.micro * c.layout.data), 0);
    EXPECT_LE(c.layout.pipeline, c.model.layers);
    EXPECT_EQ(c.model.heads % c.layout.tensor, 0);
    EXPECT_EQ(c.model.padded_vocabulary() % c.layout.tensor, 0);
    EXPECT_LE(c.data.sequence_length, c.model.context);
  }
}

// A scaled-down run keeps the family, ratios of heads and features of its recipe.
TEST(Recipes, TwinsAreSmallAndKeepTheRecipe) {
  for (const Path& path : recipes()) {
    SCOPED_TRACE(path.string());
    const config::RunConfig whole = load_run(path, {}),
                            small = load_run(path, config::scaled_down_run(whole));
    EXPECT_EQ(small.run.name, whole.run.name + "-small");
    EXPECT_EQ(small.model.family, whole.model.family);
    EXPECT_EQ(small.model.heads / small.model.kv_heads, whole.model.heads / whole.model.kv_heads);
    EXPECT_EQ(small.model.tied_embeddings, whole.model.tied_embeddings);
    EXPECT_EQ(small.optimizer.kind, whole.optimizer.kind);
    EXPECT_EQ(small.optimizer.weight_decay, whole.optimizer.weight_decay);
    EXPECT_EQ(small.precision, whole.precision);
    EXPECT_EQ(small.schedule.kind, whole.schedule.kind);
    EXPECT_EQ(small.schedule.min_lr_ratio, whole.schedule.min_lr_ratio);
    EXPECT_EQ(small.schedule.warmup_steps > 0, whole.schedule.warmup_steps > 0);
    EXPECT_EQ(small.data.objective, whole.data.objective);
    EXPECT_EQ(compile::mesh_of(small.layout).ranks(), 1);
    EXPECT_LT(small.model.hidden * small.model.all_layers(), 512);
  }
}

TEST(Recipes, ATwinOfExpertsHasExpertsOnOneRank) {
  const Path path = Path(TESSERA_RECIPES) / "pythia-70m.yaml";
  std::vector<std::string> keys = {"model.preset=mixtral-8x7b",
                                   "model.dense_layers=[30, 31]",
                                   "model.expert_feed_forward=7168",
                                   "layout.data=4",
                                   "layout.expert=4",
                                   "layout.context=2",
                                   "layout.zero_group=1"};
  const config::RunConfig whole = load_run(path, keys);
  for (const std::string& key : config::scaled_down_run(whole)) keys.push_back(key);
  const config::RunConfig small = load_run(path, keys);
  EXPECT_EQ(compile::mesh_of(small.layout).ranks(), 1);
  EXPECT_EQ(small.model.experts, 8);
  EXPECT_EQ(small.model.expert_feed_forward, small.model.feed_forward / 2);
  EXPECT_EQ(small.model.dense_layers, std::vector<int64_t>{0});
}

}  // namespace
}  // namespace tessera::train

// The run files of published runs: each is read, and its batch is cut as its layout says.
#include <gtest/gtest.h>

#include "base/file.h"
#include "model/presets.h"
#include "train/run_config.h"

namespace tessera {
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
  EXPECT_GE(all.size(), 18u);
  for (const Path& path : all) {
    SCOPED_TRACE(path.string());
    const RunConfig c = load_run(path, {});
    EXPECT_EQ(c.run.name, path.stem().string());
    EXPECT_EQ(c.batch.global % (c.batch.micro * c.layout.data), 0);
    EXPECT_LE(c.layout.pipeline, c.model.layers);
    EXPECT_EQ(c.model.heads % c.layout.tensor, 0);
    EXPECT_EQ(c.model.kv_heads % c.layout.tensor, 0);
    EXPECT_EQ(c.model.padded_vocabulary() % c.layout.tensor, 0);
    EXPECT_LE(c.data.sequence_length, c.model.context);
  }
}

}  // namespace
}  // namespace tessera

#include "checkpoint/folders.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/checkpoint/sample_state.h"
#include "tests/checkpoint/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::vector<int64_t> steps_in(const Path& dir) {
  std::vector<int64_t> steps;
  for (const auto& c : list_checkpoints(dir)) steps.push_back(c.step);
  return steps;
}

TEST(Folders, NothingIsFoundInNothing) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  EXPECT_FALSE(find_latest(temporary.path() / "checkpoints").found);
  EXPECT_TRUE(list_checkpoints(temporary.path()).empty());
}

TEST(Folders, StepsAreNumbersNotText) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  for (const int64_t step : {900, 1000, 99}) save_sample(temporary.path(), step, 1);
  fs::create_directories(temporary.path() / "1001.part");
  fs::create_directories(temporary.path() / "notes");
  fs::create_directories(temporary.path() / "0077");
  EXPECT_EQ(steps_in(temporary.path()), (std::vector<int64_t>{99, 900, 1000, 1001}));
  const LatestCheckpoint latest = find_latest(temporary.path());
  ASSERT_TRUE(latest.found);
  EXPECT_EQ(latest.found->step, 1000);
  ASSERT_EQ(latest.skipped.size(), 1u);
  EXPECT_NE(latest.skipped[0].broken.find("not finished"), std::string::npos);
}

TEST(Folders, PruneKeepsWhatARuleKeeps) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  for (int64_t step = 10; step <= 80; step += 10) save_sample(temporary.path(), step, 1);
  fs::create_directories(temporary.path() / "90.part");
  fs::resize_file(temporary.path() / "50" / "index.json", 9);  // broken: stays
  const auto removed = prune(temporary.path(), {2, 40, {20}});
  EXPECT_EQ(steps_in(temporary.path()), (std::vector<int64_t>{20, 40, 50, 70, 80}));
  EXPECT_EQ(removed.size(), 4u);  // 10, 30, 60, 90.part
  EXPECT_TRUE(prune(temporary.path(), {0, 0, {}}).empty());
  prune(temporary.path(), {1, 0, {}});
  EXPECT_EQ(steps_in(temporary.path()), (std::vector<int64_t>{50, 80}));
}

TEST(Folders, AnArgumentMayBeACheckpointItsFolderOrTheRun) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  const Path run = temporary.path() / "run", dir = run / "checkpoints";
  save_sample(dir, 5, 1);
  save_sample(dir, 6, 1);
  EXPECT_EQ(resolve_checkpoint(dir / "5"), dir / "5");
  EXPECT_EQ(resolve_checkpoint(dir), dir / "6");
  EXPECT_EQ(resolve_checkpoint(run), dir / "6");
  EXPECT_NE(error_of([&] { resolve_checkpoint(run / "none"); }).find("there is no such"),
            std::string::npos);
  EXPECT_NE(error_of([&] { resolve_checkpoint(temporary.path()); }).find("no whole checkpoint"),
            std::string::npos);
  EXPECT_NE(error_of([&] { resolve_checkpoint(dir / "5" / "index.json"); }).find("is a file"),
            std::string::npos);
  fs::create_directories(temporary.path() / "hf");
  std::ofstream(temporary.path() / "hf" / "config.json") << "{}";
  EXPECT_EQ(resolve_checkpoint(temporary.path() / "hf"), temporary.path() / "hf");
}

}  // namespace
}  // namespace tessera

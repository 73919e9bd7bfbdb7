#include "checkpoint/folders.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/checkpoint/sample_state.h"
#include "tests/checkpoint/temporary_folder.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;

std::vector<int64_t> steps_in(const Path& dir) {
  std::vector<int64_t> steps;
  for (const auto& c : list_checkpoints(dir)) steps.push_back(c.step);
  return steps;
}

// What version 0.1 left when it was killed.
void unfinished_save_of_0_1(const Path& folder) {
  fs::create_directories(folder);
  for (const char* name : {"pieces-0.bin", "pieces-1.bin.part", "pieces-1.json"})
    std::ofstream(folder / name) << "x";
}

TEST(Folders, NothingIsFoundInNothing) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  EXPECT_FALSE(find_latest(temporary.path() / "checkpoints").found);
  EXPECT_TRUE(list_checkpoints(temporary.path()).empty());
}

TEST(Folders, StepsAreNumbersNotText) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  for (const int64_t step : {900, 1000, 99}) save_sample(temporary.path(), step, 1);
  unfinished_save_of_0_1(temporary.path() / "1001.part");
  fs::create_directories(temporary.path() / "notes");
  fs::create_directories(temporary.path() / "0077");
  EXPECT_EQ(steps_in(temporary.path()), (std::vector<int64_t>{99, 900, 1000, 1001}));
  EXPECT_NE(list_checkpoints(temporary.path()).back().broken.find("not finished"),
            std::string::npos);
  const LatestCheckpoint latest = find_latest(temporary.path());
  ASSERT_TRUE(latest.found);
  EXPECT_EQ(latest.found->step, 1000);
  EXPECT_TRUE(latest.skipped.empty());
}

TEST(Folders, H1_PruneKeepsWhatThisProcessSavedAndStartedFrom) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  for (const int64_t step : {10, 20, 90, 100}) save_sample(temporary.path(), step, 1);
  KeepRule rule;
  rule.keep = 1;
  rule.started_from = 20;
  for (const int64_t step : {22, 24, 26}) {
    save_sample(temporary.path(), step, 1);
    rule.saved.push_back(step);
    prune(temporary.path(), rule);
  }
  // 90 and 100 are newer than what this process saved: not its own.
  EXPECT_EQ(steps_in(temporary.path()), (std::vector<int64_t>{20, 26, 90, 100}));
  rule.keep = 3;
  save_sample(temporary.path(), 28, 1);
  rule.saved.push_back(28);
  prune(temporary.path(), rule);
  EXPECT_EQ(steps_in(temporary.path()), (std::vector<int64_t>{20, 26, 28, 90, 100}));
}

// A checkpoint is read only once, and one that was just saved is not read at all.
TEST(Folders, L15_PruneLooksAtACheckpointOnce) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  SeenCheckpoints seen;
  KeepRule rule;
  rule.seen = &seen;
  for (const int64_t step : {10, 20, 30, 40}) {
    save_sample(temporary.path(), step, 1);
    rule.saved = {step};
    prune(temporary.path(), rule);
    fs::resize_file(temporary.path() / std::to_string(step) / "index.json", 9);
  }
  // All are damaged by now. Had they been read again, none would have been removed.
  EXPECT_EQ(steps_in(temporary.path()), (std::vector<int64_t>{20, 30, 40}));
  EXPECT_EQ(seen.size(), 3u);
}

TEST(Folders, H2_WhatCannotBeReadIsNotDamage) {
  if (::geteuid() == 0) GTEST_SKIP() << "the superuser may read everything";
  TemporaryFolder temporary(TemporaryFolder::quick());
  for (const int64_t step : {10, 20}) save_sample(temporary.path(), step, 1);
  fs::permissions(temporary.path() / "20", fs::perms::none);
  EXPECT_NE(error_of([&] { find_latest(temporary.path()); }).find("Permission denied"),
            std::string::npos);
  EXPECT_NE(list_checkpoints(temporary.path())[1].broken.find("Permission denied"),
            std::string::npos);
  fs::permissions(temporary.path() / "20", fs::perms::owner_all);
}

TEST(Folders, M1_DamagedOnesAreRenamedAndNotReadAgain) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  for (const int64_t step : {10, 20}) save_sample(temporary.path(), step, 1);
  EXPECT_EQ(rename_damaged(temporary.path() / "20").filename(), "20.damaged");
  save_sample(temporary.path(), 20, 1);
  EXPECT_EQ(rename_damaged(temporary.path() / "20").filename(), "20.damaged-2");
  EXPECT_EQ(find_latest(temporary.path()).found->step, 10);
  EXPECT_EQ(names_in(temporary.path()).damaged.size(), 2u);
  EXPECT_EQ(steps_in(temporary.path()), (std::vector<int64_t>{10, 20, 20}));
}

// Files that another process is writing stay; those of an ended process are removed.
TEST(Folders, M7_PruneRemovesTheLeftoversOfEndedProcesses) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  save_sample(temporary.path(), 10, 1);
  const CheckpointWriter live(temporary.path() / "20");
  const pid_t child = ::fork();
  if (child == 0) {
    const CheckpointWriter killed(temporary.path() / "30");
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(names_in(temporary.path()).unfinished.size(), 2u);
  EXPECT_EQ(prune(temporary.path(), {}).size(), 1u);
  ASSERT_EQ(names_in(temporary.path()).unfinished.size(), 1u);
  EXPECT_EQ(names_in(temporary.path()).unfinished[0].step, 20);
}

TEST(Folders, TheRemainsOfOwnFailedSavesAreRemoved) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  save_sample(temporary.path() / "run", 10, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    const CheckpointWriter killed(temporary.path() / "run" / "30");
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  {
    const CheckpointWriter failed(temporary.path() / "run" / "20");
    fs::rename(temporary.path() / "run", temporary.path() / "renamed");
  }
  EXPECT_EQ(names_in(temporary.path() / "renamed").unfinished.size(), 2u);
  remove_own_unfinished(temporary.path() / "renamed");
  ASSERT_EQ(names_in(temporary.path() / "renamed").unfinished.size(), 1u);
  EXPECT_EQ(names_in(temporary.path() / "renamed").unfinished[0].step, 30);
  EXPECT_EQ(names_in(temporary.path() / "renamed").finished.size(), 1u);
}

TEST(Folders, PruneRemovesNoFilesOfAUserWithTheNameOfAnUnfinishedSave) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  save_sample(temporary.path(), 10, 1);
  fs::create_directories(temporary.path() / "5.part");  // empty
  unfinished_save_of_0_1(temporary.path() / "6.part");
  for (const char* name : {"6.part", "7.part", "8.old.part"}) {
    fs::create_directories(temporary.path() / name);
    std::ofstream(temporary.path() / name / "notes.txt") << "keep";
  }
  std::ofstream(temporary.path() / "9.part") << "keep";
  fs::create_directories(temporary.path() / "elsewhere");
  unfinished_save_of_0_1(temporary.path() / "elsewhere" / "11.part");
  fs::create_directory_symlink(temporary.path() / "elsewhere" / "11.part",
                               temporary.path() / "11.part");
  EXPECT_TRUE(prune(temporary.path(), {}).empty());
  EXPECT_EQ(steps_in(temporary.path()), std::vector<int64_t>{10});
  for (const char* name : {"5.part", "6.part/notes.txt", "6.part/pieces-0.bin", "7.part/notes.txt",
                           "8.old.part/notes.txt", "9.part", "11.part/pieces-0.bin"})
    EXPECT_TRUE(fs::exists(temporary.path() / name)) << name;
}

// A user's folder does not count as an old checkpoint of the same step.
TEST(Folders, M5_ASaveReplacesNothingButACheckpoint) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  fs::create_directories(temporary.path() / "10");
  std::ofstream(temporary.path() / "10" / "mine.txt") << "keep";
  EXPECT_NE(error_of([&] { save_sample(temporary.path(), 10, 1); }).find("exists already"),
            std::string::npos);
  EXPECT_EQ(read_file(temporary.path() / "10" / "mine.txt"), "keep");
}

TEST(Folders, PruneKeepsWhatARuleKeeps) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  for (int64_t step = 10; step <= 80; step += 10) save_sample(temporary.path(), step, 1);
  unfinished_save_of_0_1(temporary.path() / "90.part");
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
  EXPECT_NE(error_of([&] { resolve_checkpoint(temporary.path()); }).find("no intact checkpoint"),
            std::string::npos);
  EXPECT_NE(error_of([&] { resolve_checkpoint(dir / "5" / "index.json"); }).find("is a file"),
            std::string::npos);
  fs::create_directories(temporary.path() / "hf");
  std::ofstream(temporary.path() / "hf" / "config.json") << "{}";
  EXPECT_EQ(resolve_checkpoint(temporary.path() / "hf"), temporary.path() / "hf");
}

}  // namespace
}  // namespace tessera::checkpoint

// A save beside a run that goes on: what it holds, when it may be seen, and what is left when it
// fails or is given up.
#include "checkpoint/async_save.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>

#include "checkpoint/reserve.h"
#include "tests/checkpoint/sample_state.h"
#include "tests/checkpoint/temporary_folder.h"

namespace tessera::checkpoint {
namespace {

SaveRequest request_of(const Path& folder, int64_t step, SampleState& state) {
  SaveRequest r;
  r.checkpoints = folder;
  r.header = sample_header(step);
  r.tensors = state.tensors();
  return r;
}

void spoil(SampleState& state) {
  for (auto& values : state.values) std::fill(values.begin(), values.end(), -7.0f);
}

TEST(AsyncSave, HoldsWhatTheStateWasEvenIfItChangesOnceRead) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  SampleState state(3);
  AsyncSave saving(request_of(temporary.path(), 5, state));
  saving.wait_until_read();
  spoil(state);
  saving.wait();
  EXPECT_EQ(saving.state(), SaveState::kOver);
  EXPECT_TRUE(holds_sample(temporary.path() / "5", 3));
}

TEST(AsyncSave, PrunesOnlyOnceTheNewOneStands) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  SampleState state(3);
  save_sample(temporary.path(), 5, 1);
  SaveRequest r = request_of(temporary.path(), 6, state);
  bool old_there = false;
  r.before_visible = [&] {
    old_there =
        holds_sample(temporary.path() / "5", 1) && !std::filesystem::exists(temporary.path() / "6");
  };
  r.keep = KeepRule{1, 0, {}};
  AsyncSave saving(std::move(r));
  saving.wait();
  EXPECT_TRUE(old_there);
  EXPECT_FALSE(std::filesystem::exists(temporary.path() / "5"));
  EXPECT_TRUE(holds_sample(temporary.path() / "6", 3));
}

TEST(AsyncSave, AFailureIsToldWithItsPlaceAndHoldsNobodyUp) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  SampleState state(3);
  SaveRequest r = request_of(temporary.path(), 5, state);
  r.before_visible = [] { throw FileError("metrics.jsonl", "cannot be written", ENOSPC); };
  AsyncSave saving(std::move(r));
  saving.wait_until_read();
  const std::string said = error_of([&] { saving.wait(); });
  EXPECT_EQ(saving.state(), SaveState::kFailed);
  EXPECT_EQ(said,
            "step 5 could not be saved: metrics.jsonl: cannot be written: No space left on device. "
            "Earlier checkpoints are unchanged. Free disk space, or keep fewer checkpoints "
            "(checkpoint.keep).");
}

TEST(AsyncSave, OnlyAFullDiskAsksForSpace) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  SampleState state(3);
  SaveRequest r = request_of(temporary.path(), 5, state);
  r.before_visible = [] { throw Error("5: exists already. Remove it."); };
  AsyncSave saving(std::move(r));
  EXPECT_EQ(error_of([&] { saving.wait(); }),
            "step 5 could not be saved: 5: exists already. Remove it. Earlier checkpoints are "
            "unchanged.");
}

TEST(AsyncSave, M10_AnOldCheckpointThatStaysIsAWarning) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  SampleState state(3);
  save_sample(temporary.path(), 4, 1);
  save_sample(temporary.path(), 5, 1);
  SaveRequest r = request_of(temporary.path(), 6, state);
  r.keep = KeepRule{1, 0, {}, [](int64_t) -> bool { throw Error("the rule failed"); }};
  AsyncSave saving(std::move(r));
  saving.wait();
  EXPECT_EQ(saving.state(), SaveState::kOver);
  EXPECT_NE(saving.warning().find("the rule failed"), std::string::npos) << saving.warning();
  EXPECT_TRUE(holds_sample(temporary.path() / "6", 3));
}

TEST(Reserve, IsReleasedOnceAndLeavesNothing) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  const Path folder = temporary.path() / "checkpoints", file = folder / "reserve-3.part";
  {
    Reserve reserve(folder, 3, 100'000);
    EXPECT_FALSE(reserve.release());
    EXPECT_EQ(reserve.take(), "");
    EXPECT_EQ(std::filesystem::file_size(file), 100'000u);
    struct stat s {};
    ASSERT_EQ(::stat(file.c_str(), &s), 0);
    EXPECT_GE(s.st_blocks * 512, 100'000);  // allocated, not only long
    EXPECT_TRUE(reserve.release());
    EXPECT_FALSE(reserve.release());
    EXPECT_FALSE(std::filesystem::exists(file));
    EXPECT_EQ(reserve.take(), "");
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
  Reserve in_the_way(temporary.path() / "x", 0, 10);
  write_file(temporary.path() / "x", "");
  EXPECT_NE(in_the_way.take(), "");
}

// A user who moves the folder to a larger disk and leaves a link keeps the link.
TEST(Reserve, ALinkInPlaceOfTheFolderStays) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  const Path folder = temporary.path() / "checkpoints", moved = temporary.path() / "moved";
  {
    Reserve reserve(folder, 0, 1000);
    EXPECT_EQ(reserve.take(), "");
    std::filesystem::rename(folder, moved);
    std::filesystem::create_directory_symlink(moved, folder);
  }
  EXPECT_TRUE(std::filesystem::is_symlink(folder));
  EXPECT_TRUE(std::filesystem::exists(moved));
}

TEST(Reserve, ThoseOfKilledRunsAreRemoved) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  write_file(temporary.path() / "reserve-7.part", "");
  write_file(temporary.path() / "reserve-8.part", std::string(9000, '\0'));
  write_file(temporary.path() / "reserve.txt", "");
  write_file(temporary.path() / "reserve-notes.part", "a user's file");
  remove_old_reserves(temporary.path());
  EXPECT_FALSE(std::filesystem::exists(temporary.path() / "reserve-8.part"));
  EXPECT_TRUE(std::filesystem::exists(temporary.path() / "reserve-notes.part"));
  EXPECT_FALSE(std::filesystem::exists(temporary.path() / "reserve-7.part"));
  EXPECT_TRUE(std::filesystem::exists(temporary.path() / "reserve.txt"));
}

// Two ranks, of which each owns every other tensor.
class TwoRanks : public testing::Test {
 protected:
  TwoRanks() : temporary_(TemporaryFolder::quick()), state_(3) {
    for (int rank = 0; rank < 2; ++rank) {
      SaveRequest r = request_of(temporary_.path(), 5, state_);
      std::vector<StateTensor> own;
      for (size_t i = 0; i < r.tensors.size(); ++i)
        if (static_cast<int>(i % 2) == rank) own.push_back(r.tensors[i]);
      r.tensors = std::move(own);
      r.group = {rank, 2, [](const std::string&) {},
                 [this](std::string& text) {
                   if (folder_.empty()) folder_ = text;  // rank 0 comes first
                   text = folder_;
                 }};
      ranks_.push_back(std::make_unique<AsyncSave>(std::move(r)));
    }
    for (const auto& r : ranks_) r->wait_until_written();
  }

  TemporaryFolder temporary_;
  SampleState state_;
  std::string folder_;  // what rank 0 broadcasts
  std::vector<std::unique_ptr<AsyncSave>> ranks_;
};

TEST_F(TwoRanks, NothingStandsBeforeAllHaveWritten) {
  for (const auto& r : ranks_) EXPECT_EQ(r->state(), SaveState::kWritten);
  EXPECT_FALSE(std::filesystem::exists(temporary_.path() / "5"));
  for (const auto& r : ranks_) r->publish();
  for (const auto& r : ranks_) r->wait();
  EXPECT_TRUE(holds_sample(temporary_.path() / "5", 3));
}

TEST_F(TwoRanks, WhatIsGivenUpLeavesNothing) {
  ranks_.clear();
  EXPECT_TRUE(std::filesystem::is_empty(temporary_.path()));
}

}  // namespace
}  // namespace tessera::checkpoint

#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <fstream>
#include <functional>
#include <thread>

#include "base/shape.h"
#include "checkpoint/checksum.h"
#include "checkpoint/convert.h"
#include "checkpoint/folders.h"
#include "checkpoint/index.h"
#include "tests/checkpoint/sample_state.h"
#include "tests/checkpoint/temporary_folder.h"

namespace tessera::checkpoint {
namespace {

using testing::Test;

void overwrite(const Path& path, int64_t at, char byte) {
  std::fstream f(path, std::ios::in | std::ios::out | std::ios::binary);
  f.seekp(at);
  f.put(byte);
}

// Replaces text in the index and gives it a right checksum again: a lie that is whole.
void edit_index(const Path& folder, const std::string& from, const std::string& to) {
  std::string text = read_file(folder / kIndexFile);
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from << " is not in " << text;
  text.replace(at, from.size(), to);
  const size_t tail = text.rfind(",\n\"xxh3\":\"");
  text.replace(tail + 10, 16, checksum_text(checksum_of(std::string_view(text).substr(0, tail))));
  std::ofstream(folder / kIndexFile) << text;
}

TEST(Checkpoint, HoldsWhatWasSaved) {
  TemporaryFolder temporary;
  const Path dir = temporary.path() / "run" / "checkpoints";
  save_sample(dir, 20, 1);
  EXPECT_TRUE(holds_sample(dir / "20", 1));
  EXPECT_FALSE(holds_sample(dir / "20", 2));
  const CheckpointReader reader(dir / "20");
  EXPECT_EQ(reader.header().step, 20);
  EXPECT_EQ(reader.header().tokens, 20000);
  EXPECT_EQ(reader.header().tokenizer, sample_header(20).tokenizer);
  EXPECT_EQ(to_json(reader.header().config), to_json(sample_header(20).config));
  EXPECT_FALSE(std::filesystem::exists(dir / "20.part"));
}

TEST(Checkpoint, SavingAStepAgainReplacesIt) {
  TemporaryFolder temporary;
  save_sample(temporary.path(), 20, 1);
  save_sample(temporary.path(), 20, 2);
  EXPECT_TRUE(holds_sample(temporary.path() / "20", 2));
  EXPECT_EQ(list_checkpoints(temporary.path()).size(), 1u);
}

TEST(Checkpoint, EveryBoxCanBeRead) {
  TemporaryFolder temporary;
  SampleState state(3);
  save(temporary.path(), sample_header(1), state.tensors());
  CheckpointReader reader(temporary.path() / "1");
  const Shape& shape = state.shapes[1];  // [4, 3, 6, 24]
  const Box box{{1, 0, 2, 5}, {4, 2, 6, 24}};
  std::vector<float> got(static_cast<size_t>(box.elements()));
  reader.read(state.names[1], box.begin, box.end, {got.data(), DType::kF32, box.extents()});
  std::vector<float> wanted(got.size());
  copy_box(box, whole_box(shape), reinterpret_cast<const std::byte*>(state.values[1].data()), box,
           reinterpret_cast<std::byte*>(wanted.data()), 4);
  EXPECT_EQ(got, wanted);
}

// Each of three ranks owns a flat third of every tensor, as ZeRO would have it; ranks 1 and 2 are
// done before rank 0 comes to the barrier, as the calls below are in turn.
TEST(Checkpoint, SavedByThreeRanksReadAsOne) {
  TemporaryFolder temporary;
  const Path folder = temporary.path() / "7";
  SampleState state(5);
  std::string of_first;
  const auto group = [&](int rank) {
    return SaveGroup{rank, 3, [](const std::string&) {},
                     [&of_first, rank](std::string& text) {
                       (rank == 0 ? of_first : text) = rank == 0 ? text : of_first;
                     }};
  };
  std::vector<std::unique_ptr<CheckpointWriter>> writers;
  std::vector<std::vector<float>> owned;
  for (int rank = 0; rank < 3; ++rank)
    writers.push_back(std::make_unique<CheckpointWriter>(folder, group(rank)));
  for (size_t i = 0; i < state.names.size(); ++i)
    for (int64_t rank = 0; rank < 3; ++rank) {
      const int64_t n = state.shapes[i].elements();
      int64_t at = n * rank / 3;
      for (const Box& box : boxes_of_range(state.shapes[i], at, n * (rank + 1) / 3)) {
        StateTensor t = state.tensor(i);
        t.begin = box.begin;
        t.end = box.end;
        t.data = {state.values[i].data() + at, DType::kF32, box.extents()};
        at += box.elements();
        writers[static_cast<size_t>(rank)]->add(t);
      }
    }
  writers[1]->commit({});
  writers[2]->commit({});
  writers[0]->commit(sample_header(7));
  EXPECT_TRUE(holds_sample(folder, 5));
  EXPECT_EQ(CheckpointReader(folder).header().ranks, 3);
}

// Two ranks, each on a thread. `fail` makes one of them fail.
std::vector<std::string> errors_of_two_ranks(const Path& folder,
                                             const std::function<void(int rank)>& fail) {
  std::array<std::string, 2> own, errors;
  std::string part;
  std::barrier both(2);
  const auto work = [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    SaveGroup group{rank, 2,
                    [&, r](const std::string& text) {
                      own[r] = text;
                      both.arrive_and_wait();
                      const std::string first = own[0].empty() ? own[1] : own[0];
                      both.arrive_and_wait();
                      if (!first.empty()) throw Error(first);
                    },
                    [&, rank](std::string& text) {
                      if (rank == 0) part = text;
                      both.arrive_and_wait();
                      text = part;
                    }};
    SampleState state(5);
    CheckpointWriter writer(folder, group);
    if (rank == 0)
      for (size_t i = 0; i < state.names.size(); ++i) writer.add(state.tensor(i));
    both.arrive_and_wait();
    fail(rank);
    errors[r] = error_of([&] { writer.commit(sample_header(7)); });
  };
  std::thread second(work, 1);
  work(0);
  second.join();
  return {errors[0], errors[1]};
}

TEST(Checkpoint, ACommitThatFailsOnOneRankFailsOnAll) {
  TemporaryFolder temporary;
  const Path folder = temporary.path() / "7";
  EXPECT_EQ(errors_of_two_ranks(folder, [](int) {}), (std::vector<std::string>(2, "no error")));
  EXPECT_TRUE(holds_sample(folder, 5));
  // The folder of the save is gone, or a file is where the checkpoint is to be.
  for (const int failing : {0, 1}) {
    const auto errors = errors_of_two_ranks(temporary.path() / "8", [&](int rank) {
      if (rank != failing) return;
      if (rank == 0)
        std::ofstream(temporary.path() / "8") << "in the way";
      else
        for (const auto& e : std::filesystem::recursive_directory_iterator(temporary.path()))
          if (e.path().filename().string().starts_with("pieces-1.bin."))
            std::filesystem::remove(e.path());
    });
    for (const std::string& error : errors) EXPECT_NE(error, "no error");
    EXPECT_EQ(errors[0], errors[1]);
    std::filesystem::remove_all(temporary.path() / "8");
  }
}

TEST(Checkpoint, ReadingConvertsFloats) {
  TemporaryFolder temporary;
  SampleState state(3);
  save(temporary.path(), sample_header(1), state.tensors());
  CheckpointReader reader(temporary.path() / "1");
  std::vector<BF16> got(24);
  reader.read("layer0.norm1.gain", {got.data(), DType::kBF16, Shape{24}});
  for (size_t i = 0; i < 24; ++i) EXPECT_EQ(got[i].bits, BF16(state.values[3][i]).bits);
  std::vector<int32_t> integers(24);
  EXPECT_NE(error_of([&] {
              reader.read("layer0.norm1.gain", {integers.data(), DType::kI32, Shape{24}});
            }).find("is f32, expected i32"),
            std::string::npos);
}

class BrokenCheckpoint : public Test {
 protected:
  BrokenCheckpoint() { save_sample(dir(), 10, 1), save_sample(dir(), 20, 2); }
  const Path& dir() const { return temporary_.path(); }
  Path newest() const { return dir() / "20"; }
  // Opening and reading everything ends in an error that says this, and the older one is found.
  void expect(const std::string& words, bool seen_without_reading = true) {
    const std::string said = error_of([&] { CheckpointReader(newest()).verify(); });
    EXPECT_NE(said.find(words), std::string::npos) << said;
    EXPECT_NE(said.find(newest().string()), std::string::npos) << said;
    if (!seen_without_reading) return;
    const LatestCheckpoint latest = find_latest(dir());
    ASSERT_TRUE(latest.found);
    EXPECT_EQ(latest.found->step, 10);
    ASSERT_EQ(latest.skipped.size(), 1u);
    EXPECT_EQ(latest.skipped[0].broken, said);
    EXPECT_TRUE(holds_sample(dir() / "10", 1));
  }

 private:
  TemporaryFolder temporary_{TemporaryFolder::quick()};
};

TEST_F(BrokenCheckpoint, NoIndex) {
  std::filesystem::remove(newest() / kIndexFile);
  expect("it has no index.json");
}
TEST_F(BrokenCheckpoint, IndexCutOff) {
  std::filesystem::resize_file(newest() / kIndexFile, 100);
  expect("the end is missing");
}
TEST_F(BrokenCheckpoint, IndexEmpty) {
  std::filesystem::resize_file(newest() / kIndexFile, 0);
  expect("the end is missing");
}
TEST_F(BrokenCheckpoint, IndexDamaged) {
  overwrite(newest() / kIndexFile, 30, '!');
  expect("changed or damaged");
}
TEST_F(BrokenCheckpoint, PiecesCutOff) {
  std::filesystem::resize_file(newest() / "pieces-0.bin", 1000);
  expect("has 1000 bytes, expected");
}
TEST_F(BrokenCheckpoint, PiecesMissing) {
  std::filesystem::remove(newest() / "pieces-0.bin");
  expect("cannot be opened");
}
TEST_F(BrokenCheckpoint, PiecesDamaged) {
  overwrite(newest() / "pieces-0.bin", 1000, '!');
  expect("have the checksum", false);
}
TEST_F(BrokenCheckpoint, TokenizerChanged) {
  overwrite(newest() / kTokenizerFile, 3, '!');
  expect("Restore the file");
}
TEST_F(BrokenCheckpoint, OfANewerProgram) {
  edit_index(newest(), "\"format_version\":1", "\"format_version\":2");
  expect("this program reads format 1");
}
TEST_F(BrokenCheckpoint, UnknownType) {
  edit_index(newest(), "\"f32\"", "\"f31\"");
  expect("has the unknown type 'f31'");
}
TEST_F(BrokenCheckpoint, PieceBeyondItsFile) {
  edit_index(newest(), "\"offset\":0", "\"offset\":999936");
  expect("exceeds that file");
}
TEST_F(BrokenCheckpoint, PieceLargerThanItsBox) {
  edit_index(newest(), "\"bytes\":3840", "\"bytes\":3844");
  expect("but its box has 3840");
}
TEST_F(BrokenCheckpoint, PieceOutsideOfTheTensor) {
  edit_index(newest(), "\"end\":[40,24]", "\"end\":[41,24]");
  expect("exceeds its shape [40, 24]");
}
TEST_F(BrokenCheckpoint, PiecesDoNotCover) {
  edit_index(newest(), "\"shape\":[40,24]", "\"shape\":[41,24]");
  expect("do not cover");
}
TEST_F(BrokenCheckpoint, AbsurdShape) {
  edit_index(newest(), "\"shape\":[40,24]", "\"shape\":[4611686018427387904,4611686018427387904]");
  expect("cannot have the shape");
}
TEST_F(BrokenCheckpoint, FileElsewhere) {
  edit_index(newest(), "\"name\":\"pieces-0.bin\"", "\"name\":\"../10/pieces-0.bin\"");
  expect("is not the name of a file");
}
TEST_F(BrokenCheckpoint, WrongKind) {
  edit_index(newest(), "\"step\":20", "\"step\":\"20\"");
  expect("'step' is a text, expected an integer");
}
TEST_F(BrokenCheckpoint, KeyMissing) {
  edit_index(newest(), "\"tokens\":", "\"token\":");
  expect("has no 'tokens'");
}

TEST(Checkpoint, ReadNamesWhatIsNotThere) {
  TemporaryFolder temporary;
  save_sample(temporary.path(), 1, 1);
  CheckpointReader reader(temporary.path() / "1");
  std::vector<float> out(24);
  EXPECT_NE(error_of([&] {
              reader.read("nobody", {out.data(), DType::kF32, Shape{24}});
            }).find("has no tensor 'nobody'"),
            std::string::npos);
  const std::vector<int64_t> begin{8}, end{32};
  EXPECT_NE(error_of([&] {
              reader.read("layer0.norm1.gain", begin, end, {out.data(), DType::kF32, Shape{24}});
            }).find("the requested box, [8] to [32], exceeds"),
            std::string::npos);
}

TEST(Convert, F16IsExactAndRoundsToEven) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float x = float_from_f16(static_cast<uint16_t>(bits));
    const bool nan = (bits & 0x7c00u) == 0x7c00u && (bits & 0x3ffu) != 0;
    EXPECT_EQ(f16_from_float(x), nan ? (bits | 0x200u) : bits);
    // Half-way between this number and the next goes to the even one.
    if ((bits & 0x7fffu) >= 0x7bffu) continue;
    const float next = float_from_f16(static_cast<uint16_t>(bits + 1));
    EXPECT_EQ(f16_from_float((x + next) / 2), (bits & 1u) ? bits + 1 : bits);
  }
  EXPECT_EQ(f16_from_float(65519.996f), 0x7bff);
  EXPECT_EQ(f16_from_float(65520.0f), 0x7c00);
  EXPECT_EQ(f16_from_float(1e-10f), 0);
  EXPECT_EQ(float_from_f16(0x3c00), 1.0f);
  EXPECT_EQ(float_from_f16(0x0001), 0x1p-24f);
}

}  // namespace
}  // namespace tessera::checkpoint

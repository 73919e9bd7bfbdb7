// The verb as a person meets it: exit codes, words and JSON. The work behind it has tests of its
// own.
#include <gtest/gtest.h>

#include <fstream>

#include "base/tree.h"
#include "tests/checkpoint/sample_state.h"
#include "tests/checkpoint/temporary_folder.h"

namespace tessera::cli {
namespace {

class CheckpointVerb : public testing::Test {
 protected:
  CheckpointVerb() {
    checkpoint::save_sample(dir(), 10, 1);
    checkpoint::save_sample(dir(), 20, 2);
  }
  Path run_directory() const { return temporary_.path() / "run"; }
  Path dir() const { return run_directory() / "checkpoints"; }

  // Runs `tessera checkpoint …`; keeps what it printed.
  int tessera(const std::string& arguments) {
    const Path out = temporary_.path() / "out", err = temporary_.path() / "err";
    const std::string command = fmt::format("{} checkpoint {} >{} 2>{}", TESSERA_PROGRAM, arguments,
                                            out.string(), err.string());
    const int status = std::system(command.c_str());
    out_ = read_file(out);
    err_ = read_file(err);
    return WEXITSTATUS(status);
  }
  // The member of the JSON object that it printed, as text.
  std::string printed(const char* key) const {
    const Tree* found = parse_json(out_, "out").find(key);
    return found ? to_json(*found) : "absent";
  }
  std::string out_, err_;

 private:
  checkpoint::TemporaryFolder temporary_{checkpoint::TemporaryFolder::quick()};
};

TEST_F(CheckpointVerb, ListsARunInWordsAndAsJson) {
  EXPECT_EQ(tessera("ls " + run_directory().string()), 0);
  EXPECT_NE(out_.find("20,000 tokens"), std::string::npos) << out_;
  EXPECT_EQ(tessera("ls --json " + run_directory().string()), 0);
  const Tree root = parse_json(out_, "out");
  ASSERT_EQ(root.find("checkpoints")->as_list()->size(), 2u);
  EXPECT_EQ(to_json(*root.find("checkpoints")->as_list()->back().find("step")), "20");
  EXPECT_EQ(tessera("ls --tensors " + (dir() / "20").string()), 0);
  EXPECT_NE(out_.find("[4, 3, 6, 24]"), std::string::npos) << out_;
}

TEST_F(CheckpointVerb, VerifyFindsOneDamagedByte) {
  EXPECT_EQ(tessera("verify " + run_directory().string()), 0);
  std::fstream(dir() / "20" / "pieces-0.bin", std::ios::in | std::ios::out).seekp(777) << '!';
  EXPECT_EQ(tessera("verify --json " + run_directory().string()), 1);
  EXPECT_EQ(printed("broken"), "1");
  EXPECT_EQ(tessera("verify " + (dir() / "10").string()), 0);
}

TEST_F(CheckpointVerb, DiffEndsWithOneWhereSomethingDiffers) {
  const std::string ten = (dir() / "10").string(), twenty = (dir() / "20").string();
  EXPECT_EQ(tessera("diff " + ten + " " + ten), 0);
  EXPECT_EQ(tessera("diff " + ten + " " + twenty), 1);
  EXPECT_NE(out_.find("5 of 5 tensors differ"), std::string::npos) << out_;
  EXPECT_NE(out_.find("step: 10 and 20"), std::string::npos) << out_;
}

TEST_F(CheckpointVerb, WhatCannotBeDoneIsSaidAndLeavesNothing) {
  const std::string run = run_directory().string();
  EXPECT_EQ(tessera("export " + run + " --to " + run + "/hf"), 1);
  EXPECT_NE(err_.find("describes an invalid model"), std::string::npos) << err_;
  EXPECT_FALSE(std::filesystem::exists(run + "/hf"));
  EXPECT_EQ(tessera("export " + run + " --to x --dtype i64"), 2);
  EXPECT_EQ(tessera("import --from " + run), 2);
  EXPECT_EQ(tessera("import --from " + run + " --out " + run + "/new"), 1);
  EXPECT_NE(err_.find("has no config.json"), std::string::npos) << err_;
  EXPECT_EQ(tessera("ls " + run + "/nowhere"), 1);
  EXPECT_NE(err_.find("there is no such folder"), std::string::npos) << err_;
}

}  // namespace
}  // namespace tessera::cli

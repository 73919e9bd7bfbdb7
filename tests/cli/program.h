// A folder with a tiny tokenizer and dataset, and the real program run in it: what the tests of
// `tessera train` share.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/tree.h"
#include "tests/byte_tokenizer.h"

namespace tessera::cli {

// As built, or where the environment says that it was moved to.
inline std::string tessera_program() {
  const char* const moved = std::getenv("TESSERA_PROGRAM");
  return moved != nullptr ? moved : TESSERA_PROGRAM;
}

struct ProgramResult {
  int code = -1;
  std::string out, err;
};

// Holds t.json, a.txt and the dataset d.
class ProgramFolder : public testing::Test {
 protected:
  using Files = std::map<std::string, std::string>;

  ProgramFolder() {
    std::string name = std::filesystem::temp_directory_path() / "tessera_run.XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no folder for the test";
    folder_ = name;
    put("t.json", byte_tokenizer());
    std::string text;
    for (int i = 0; i < 400; ++i) text += fmt::format("the quick brown fox {} jumps again\n", i);
    put("a.txt", text);
    EXPECT_EQ(run("data build --tokenizer t.json --out d a.txt").code, 0);
  }
  ~ProgramFolder() override { std::filesystem::remove_all(folder_); }

  void put(const std::string& name, const std::string& bytes) const {
    write_file(folder_ / name, bytes);
  }
  std::string get(const std::string& name) const { return read_file(folder_ / name); }

  // Runs in the folder, so that messages name files as they were given.
  ProgramResult run(const std::string& arguments, const std::string& before = "") const {
    const std::string err = folder_.string() + ".err";
    const std::string line = fmt::format("cd {}; {} {} {} 2>{}", folder_.string(), before,
                                         tessera_program(), arguments, err);
    FILE* pipe = popen(line.c_str(), "r");
    ProgramResult r;
    std::array<char, 4096> piece;
    for (size_t n; (n = fread(piece.data(), 1, piece.size(), pipe)) > 0;)
      r.out.append(piece.data(), n);
    const int status = pclose(pipe);
    r.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    r.err = read_file(err);
    std::filesystem::remove(err);
    return r;
  }

  // Every file and folder below `part` of the folder. Of a log only that it is there: a run that
  // fails says so in it.
  Files snapshot(const std::string& part = "") const {
    Files files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / part))
      files[entry.path().string()] = entry.is_directory() ? "a folder"
                                     : entry.path().filename() == "log.txt"
                                         ? "a log"
                                         : read_file(entry.path());
    return files;
  }

  std::filesystem::path folder_;
};

}  // namespace tessera::cli

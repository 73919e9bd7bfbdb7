// Under a real limit (a control group of the kernel): what was planned and 150 MB more is enough,
// and a tenth less than planned is refused before the first step.
#include <unistd.h>

#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

// A group that may use so much; none where the machine does not let us make one.
class LimitedGroup {
 public:
  explicit LimitedGroup(int64_t bytes) {
    for (const auto& [root, limit] : {std::pair{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
                                      std::pair{"/sys/fs/cgroup", "memory.max"}}) {
      const auto folder = std::filesystem::path(root) / fmt::format("tessera_test_{}", ::getpid());
      std::error_code failed;
      if (!std::filesystem::create_directory(folder, failed)) continue;
      folder_ = folder;
      if (write(folder / limit, std::to_string(bytes))) return;
      remove();
    }
  }
  ~LimitedGroup() { remove(); }

  bool made() const { return !folder_.empty(); }
  std::string enter() const { return fmt::format("echo $$ > {}/cgroup.procs;", folder_.string()); }

 private:
  static bool write(const std::filesystem::path& file, const std::string& text) {
    FILE* f = std::fopen(file.c_str(), "r+");
    if (f == nullptr) return false;
    const bool put = std::fputs(text.c_str(), f) >= 0;
    return std::fclose(f) == 0 && put;
  }
  void remove() {
    std::error_code ignored;
    if (made()) std::filesystem::remove(folder_, ignored);
    folder_.clear();
  }

  std::filesystem::path folder_;
};

class MemoryLimit : public ProgramFolder {
 protected:
  MemoryLimit() {
    put("run.yaml",
        "model: { layers: 6, hidden: 384, heads: 6, vocabulary: 257, context: 64 }\n"
        "data: { tokenizer: t.json, train: [d], sequence_length: 64 }\n"
        "batch: { global: 1, micro: 1 }\n"
        "schedule: { steps: 1 }\n"
        "checkpoint: { every_steps: 0 }\n"
        "run: { directory: run, seed: 1, threads: 1 }\n");
    const ProgramResult compiled = run("compile run.yaml --json");
    EXPECT_EQ(compiled.code, 0) << compiled.err;
    const std::string key = "\"arena_bytes\":";
    arena_bytes_ = std::stoll(compiled.out.substr(compiled.out.find(key) + key.size()));
  }

  int64_t arena_bytes_ = 0;
};

TEST_F(MemoryLimit, WhatWasPlannedIsEnough) {
  const LimitedGroup group(arena_bytes_ + 150'000'000);
  if (!group.made()) GTEST_SKIP() << "control groups of memory cannot be made here";
  const ProgramResult r = run("train run.yaml", group.enter());
  EXPECT_EQ(r.code, 0) << r.err;
}

TEST_F(MemoryLimit, LessIsRefusedBeforeTheFirstStep) {
  const LimitedGroup group(arena_bytes_ / 10 * 9);
  if (!group.made()) GTEST_SKIP() << "control groups of memory cannot be made here";
  const ProgramResult r = run("train run.yaml", group.enter());
  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_NE(r.err.find("this run needs"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("this process may use"), std::string::npos) << r.err;
  EXPECT_EQ(r.err.find("step 1/"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace tessera::cli

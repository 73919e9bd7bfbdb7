// A run directory of a test, written file by file.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/file.h"

namespace tessera::report {

class RunFolder : public testing::Test {
 protected:
  RunFolder() {
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("tessera_report_{}_{}", ::getpid(),
                          testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  ~RunFolder() override { std::filesystem::remove_all(folder_); }

  // Returns the run directory; `name` may be a path with folders.
  Path run(const std::string& name) const {
    std::filesystem::create_directories(folder_ / name);
    return folder_ / name;
  }

  // Does not flush to the disk, unlike write_file(): some tests write thousands of files.
  static void put(const Path& file, std::string_view text) {
    std::ofstream(file, std::ios::binary) << text;
  }

  // Lines of steps 1 to `steps`, each with loss 10 / step and 0.5 s.
  static std::string metrics(int64_t steps) {
    std::string text;
    for (int64_t s = 1; s <= steps; ++s)
      text += fmt::format(
          R"({{"step":{},"tokens":{},"loss":{},"grad_norm":1.5,"learning_rate":0.001,"step_s":0.5,)"
          R"("data_s":0.1,"tokens_per_s":2048,"model_flops_share":0.25}})"
          "\n",
          s, 1024 * s, 10.0 / static_cast<double>(s));
    return text;
  }

  Path folder_;
};

}  // namespace tessera::report

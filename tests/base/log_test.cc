#include "base/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

TEST(Log, LinesReachTheTerminalAndTheFile) {
  const Path file = fs::temp_directory_path() / fmt::format("tessera_log_{}", getpid());
  testing::internal::CaptureStdout();
  {
    Log log(LogTerminal::kOut);
    log.info("before {}", 1);
    log.open(file);
    log.info("step {}", 2);
    log.warning("braces {{}} stay");
    EXPECT_NE(read_file(file).find("step 2\n"), std::string::npos) << "not flushed";
  }
  {
    Log log(LogTerminal::kOff);
    log.open(file);
    log.error("third");
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "before 1\nstep 2\nwarning: braces {} stay\n");
  const std::string text = read_file(file);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_NE(text.find("error: third"), std::string::npos);
  fs::remove(file);
}

TEST(Log, AnUnwritableFileIsAnError) {
  Log log(LogTerminal::kOff);
  EXPECT_THROW(log.open("/proc/none/log.txt"), Error);
}

}  // namespace
}  // namespace tessera

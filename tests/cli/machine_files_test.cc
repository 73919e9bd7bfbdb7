#include "cli/machine_files.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

// The tests run in the build's directory, which has no configs/.
TEST(MachineFiles, B10_NamesWorkInEveryDirectory) {
  ASSERT_FALSE(std::filesystem::exists("configs"));
  EXPECT_EQ(open_cluster("h100").device.kind, "gpu");
  EXPECT_NO_THROW(open_software("megatron-2022"));
}

TEST(MachineFiles, B10_AnUnknownNameIsAnsweredWithTheKnownOnes) {
  try {
    open_cluster("h1000");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("h1000"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find(" a100-80gb h100 h200 "), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tessera

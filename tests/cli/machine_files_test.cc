#include "cli/machine_files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"

namespace tessera::cli {
namespace {

// Changes to a new, empty directory, and back at its end.
class EmptyDirectory {
 public:
  EmptyDirectory() : before_(std::filesystem::current_path()) {
    std::string name = std::filesystem::temp_directory_path() / "tessera_empty.XXXXXX";
    CHECK(::mkdtemp(name.data()) != nullptr, "no folder for the test");
    here_ = name;
    std::filesystem::current_path(here_);
  }
  ~EmptyDirectory() {
    std::filesystem::current_path(before_);
    std::filesystem::remove(here_);
  }
  EmptyDirectory(const EmptyDirectory&) = delete;
  EmptyDirectory& operator=(const EmptyDirectory&) = delete;

 private:
  std::filesystem::path before_, here_;
};

TEST(MachineFiles, B10_NamesWorkInEveryDirectory) {
  const EmptyDirectory here;
  EXPECT_EQ(open_cluster("h100").device.kind, plan::DeviceKind::kGpu);
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
}  // namespace tessera::cli

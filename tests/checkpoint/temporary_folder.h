// A folder that goes when the test ends.
#pragma once

#include <stdlib.h>

#include <string>

#include "base/error.h"
#include "base/file.h"

namespace tessera::checkpoint {

class TemporaryFolder {
 public:
  explicit TemporaryFolder(const Path& parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "tessera-test-XXXXXX").string();
    CHECK(::mkdtemp(name.data()), "no temporary folder at {}", name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const Path& path() const { return path_; }
  // In memory where the system has such a folder: for tests that flush hundreds of times.
  static Path quick() {
    std::error_code error;
    const Path memory = "/dev/shm";
    const bool there = std::filesystem::is_directory(memory, error);
    return there ? memory : std::filesystem::temp_directory_path();
  }

 private:
  Path path_;
};

// What the Error of `act` says; "no error" if there is none.
template <class Act>
std::string error_of(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace tessera::checkpoint

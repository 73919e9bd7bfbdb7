// A folder that goes when the test ends.
#pragma once

#include <stdlib.h>

#include <string>

#include "base/error.h"
#include "base/file.h"

namespace tessera {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tessera-test-XXXXXX").string();
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

}  // namespace tessera

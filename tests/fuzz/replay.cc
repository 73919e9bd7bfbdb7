// Feeds files to a fuzz target without a fuzzer: every file of the folders that are named.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  std::vector<tessera::Path> files;
  for (int i = 1; i < argc; ++i)
    for (const auto& entry : std::filesystem::directory_iterator(argv[i]))
      if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const tessera::Path& path : files) {
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);  // names the file if it crashes
    const std::string bytes = tessera::read_file(path);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
  return files.empty() ? 1 : 0;
}

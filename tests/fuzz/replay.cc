// Runs a fuzz target on the files of the folders given: what libFuzzer's own main does with a
// corpus, for compilers without it.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>

#include "base/file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes);

int main(int argc, char** argv) {
  int replayed = 0;
  for (int i = 1; i < argc; ++i)
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      const std::string text = tessera::read_file(entry.path());
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
      ++replayed;
    }
  std::printf("%d files replayed\n", replayed);
  return replayed > 0 ? 0 : 1;
}

// Any bytes as a safetensors file; or, where they begin with "index:", as an index, a line "--",
// and a file it may name ("one.safetensors"). All that is accepted is read to the last byte.
#include <cstdint>

#include "checkpoint/checksum.h"
#include "checkpoint/safetensors.h"
#include "tests/fuzz/scratch_folder.h"

namespace tessera {
namespace {

constexpr std::string_view kIndexed = "index:", kSeparator = "\n--\n";

// Reading what lies outside of the file would be seen by the sanitizer.
uint64_t read_all(const checkpoint::SafetensorsFolder& folder) {
  uint64_t sum = 0;
  for (const std::string& name : folder.names())
    sum ^= checkpoint::checksum_of(folder.find(name)->bytes);
  return sum;
}

void open_folder(std::string_view index, std::string_view file) {
  const Path folder = scratch_folder();
  const Path place = index.empty() ? folder / "plain" : folder / "indexed";
  std::filesystem::create_directories(place);
  put(place / (index.empty() ? "model.safetensors" : "one.safetensors"), file);
  if (!index.empty()) put(place / "model.safetensors.index.json", index);
  try {
    read_all(checkpoint::SafetensorsFolder(place));
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  std::string_view text(reinterpret_cast<const char*>(data), bytes);
  const size_t split = text.find(tessera::kSeparator);
  if (text.starts_with(tessera::kIndexed) && split != std::string_view::npos)
    tessera::open_folder(text.substr(tessera::kIndexed.size(), split - tessera::kIndexed.size()),
                         text.substr(split + tessera::kSeparator.size()));
  else
    tessera::open_folder("", text);
  return 0;
}

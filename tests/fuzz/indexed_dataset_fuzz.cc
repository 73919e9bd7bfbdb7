// Any .idx beside a .bin of any size, and any .json beside both, give a dataset that can be read to
// its end, or an Error. The input: 2 bytes size of the .bin, 2 bytes size of the .idx, the .idx,
// and the rest as .json (none if it is empty).
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "data/dataset_about.h"
#include "data/indexed_dataset.h"

using namespace tessera;

namespace {

// In memory where the system has a place for that; it goes away with the process.
struct Folder {
  Folder() {
    const bool memory = std::filesystem::is_directory("/dev/shm");
    std::string name = (memory ? Path("/dev/shm") : std::filesystem::temp_directory_path()) /
                       "indexed_dataset_fuzz.XXXXXX";
    CHECK(::mkdtemp(name.data()) != nullptr, "no folder");
    prefix = Path(name) / "d";
  }
  ~Folder() { std::filesystem::remove_all(prefix.parent_path()); }
  std::string file(const char* suffix) const { return prefix.string() + suffix; }
  Path prefix;
};

void put(const std::string& path, std::string_view bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  CHECK(file != nullptr, "{} cannot be written", path);
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
}

void read_all(const IndexedDataset& data) {
  int64_t tokens = 0;
  std::vector<int32_t> ids;
  for (int64_t s = 0; s < data.sequences(); ++s) {
    CHECK(data.first_token(s) == tokens, "sequence {} at {}", s, data.first_token(s));
    ids.resize(static_cast<size_t>(data.length(s)));
    data.read(tokens, ids);
    tokens += data.length(s);
    if (!ids.empty()) CHECK(data.sequence_of(tokens - 1) == s, "token {}", tokens - 1);
  }
  CHECK(tokens == data.tokens(), "{} tokens of {}", tokens, data.tokens());
  CHECK(data.first_sequence(data.documents()) == data.sequences(), "the last document");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  uint16_t bin = 0, idx = 0;
  if (size < 4) return 0;
  std::memcpy(&bin, data, 2);
  std::memcpy(&idx, data + 2, 2);
  const std::string_view rest(reinterpret_cast<const char*>(data) + 4, size - 4);
  put(folder.file(".bin"), std::string(bin, '\1'));
  put(folder.file(".idx"), rest.substr(0, idx));
  const std::string_view about = rest.substr(std::min<size_t>(idx, rest.size()));
  if (about.empty()) {
    ::unlink(folder.file(".json").c_str());
  } else {
    put(folder.file(".json"), about);
  }
  try {
    const IndexedDataset dataset(folder.prefix);
    read_all(dataset);
    const auto described = read_about(dataset);
    if (!described) return 0;
    const std::string once = to_json(*described);
    put(folder.file(".json"), once);
    CHECK(to_json(*read_about(dataset)) == once, "{} reads back otherwise", once);
  } catch (const Error&) {
  }
  return 0;
}

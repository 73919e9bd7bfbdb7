// Any bytes as a Parquet file give rows or an Error. The first byte chooses whether all columns are
// read. A few bytes can stand for billions of rows, so only the first ones are read.
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "data/parquet_file.h"

using namespace tessera;

namespace {

// A file without a name in any folder; one for all runs.
const std::string& memory_file(std::string_view bytes) {
  static const int fd = ::memfd_create("parquet", 0);
  static const std::string name = "/proc/self/fd/" + std::to_string(fd);
  CHECK(fd >= 0 && ::ftruncate(fd, 0) == 0 &&
            ::pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
        "no file in memory");
  return name;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  if (size == 0) return 0;
  constexpr int kMostRows = 1000;
  const std::string_view bytes(reinterpret_cast<const char*>(input) + 1, size - 1);
  try {
    tessera::data::ParquetFile table(memory_file(bytes), (input[0] & 1) != 0
                                                             ? std::vector<std::string>{"text"}
                                                             : std::vector<std::string>());
    int rows = 0;
    for (Tree row; rows < kMostRows && table.next(row); ++rows)
      CHECK(row.as_members() != nullptr, "a row is not an object");
  } catch (const Error&) {
  }
  return 0;
}

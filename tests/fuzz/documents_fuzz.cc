// Any bytes as a text file, JSON lines, gzip or zstd give documents or an Error. The first byte
// chooses how the rest is read. What simdjson takes, the reader that knows columns takes alike.
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "data/documents.h"
#include "data/json_line.h"

using namespace tessera;

namespace {

// A file without a name in any folder; one for all runs.
const std::string& memory_file(std::string_view bytes) {
  static const int fd = ::memfd_create("documents", 0);
  static const std::string name = "/proc/self/fd/" + std::to_string(fd);
  CHECK(fd >= 0 && ::ftruncate(fd, 0) == 0 &&
            ::pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
        "no file in memory");
  return name;
}

void read_documents(std::string_view bytes, const data::DocumentOptions& options) {
  data::DocumentStream stream({.files = {memory_file(bytes)}, .skipped = 0, .left_out = {}},
                              options);
  int64_t offset = -1, line = 0;
  for (data::Document d; stream.next(d);) {
    CHECK(d.offset > offset && d.line > line, "document at {}:{} after {}:{}", d.line, d.offset,
          line, offset);
    offset = d.offset;
    line = d.line;
  }
}

// The message names a place in the line, from 1.
void compare_parsers(std::string_view line) {
  const data::JsonScan scan = data::scan_json(line, "text");
  std::string padded(line), text;
  try {
    data::JsonLineParser("text").parse(padded, "line:1", text);
  } catch (const Error& e) {
    CHECK(std::string_view(e.what()).starts_with("line:1:"), "no place in: {}", e.what());
    CHECK(scan.found != "string" || !scan.error.empty(), "refused: {}", e.what());
    return;
  }
  const bool whitespace_inside = line.find('\n') != line.npos;
  const bool too_deep = scan.error.starts_with("nested");
  if (whitespace_inside || too_deep) return;
  CHECK(scan.error.empty() && scan.text == text, "the parsers differ: '{}', '{}', '{}'", scan.error,
        scan.text, text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  data::DocumentOptions options;
  options.split = static_cast<data::Split>(data[0] % 3);
  options.format = data[0] & 4 ? data::TextFormat::kJsonLines : data::TextFormat::kAuto;
  options.any_bytes = (data[0] & 16) == 0;
  try {
    read_documents(bytes, options);
  } catch (const Error&) {
  }
  if (data[0] & 8) compare_parsers(bytes);
  return 0;
}

// The text of a graph or of a program, as `tessera compile --check-text` reads it: it comes back
// from its own print, or is an Error.
#include "base/error.h"
#include "ir/parse.h"
#include "ir/print.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto expect_same = [](const std::string& once, const std::string& again) {
    CHECK(once == again, "printed otherwise the second time:\n{}\n{}", once, again);
  };
  try {
    if (text.starts_with("graph")) {
      const std::string once = print(parse_graph(text, "text"));
      expect_same(once, print(parse_graph(once, "print")));
    } else {
      const std::string once = print(parse_program(text, "text"));
      expect_same(once, print(parse_program(once, "print")));
    }
  } catch (const Error&) {
  }
  return 0;
}

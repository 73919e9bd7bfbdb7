// Any bytes give a tree or an Error, and a tree is written so that it reads back the same.
#include "base/error.h"
#include "base/tree.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Tree tree;
  try {
    tree = parse_yaml(text, "input");
  } catch (const Error&) {
    return 0;
  }
  const std::string once = to_yaml(tree);
  const std::string again = to_yaml(parse_yaml(once, "output"));
  CHECK(once == again, "{} is read back as {}", once, again);
  return 0;
}

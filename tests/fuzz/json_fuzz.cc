// Any bytes give a tree or an Error, as one value and as lines of values. A tree is written so that
// it reads back the same, on one line and indented.
#include "base/error.h"
#include "base/tree.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    parse_json_lines(text, "input");
  } catch (const Error&) {
  }
  Tree tree;
  try {
    tree = parse_json(text, "input");
  } catch (const Error&) {
    return 0;
  }
  const std::string once = to_json(tree);
  const std::string again = to_json(parse_json(once, "output"));
  CHECK(once == again, "{} is read back as {}", once, again);
  const std::string indented = to_json(parse_json(to_json(tree, 2), "indented"));
  CHECK(once == indented, "{} is read back as {}", once, indented);
  if (const Tree::Members* members = tree.as_members())
    for (const auto& [key, value] : *members) CHECK(tree.find(key) != nullptr, "no '{}'", key);
  return 0;
}

// Any run file and command line give a run or an Error; what is read is written and read the same.
// Lines after one that is "===" are key=value arguments.
#include "config/run_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t cut = std::min(text.find("\n===\n"), text.size());
  std::vector<std::string> overrides;
  for (size_t from = std::min(cut + 5, text.size()); from < text.size();) {
    const size_t to = std::min(text.find('\n', from), text.size());
    overrides.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  config::RunConfig config;
  try {
    config = config::read_run(parse_yaml(text.substr(0, cut), "run.yaml"), "run.yaml", overrides);
    config::validate(config);
  } catch (const Error&) {
    return 0;
  }
  const std::string once = to_yaml(to_tree(config));
  const std::string again =
      to_yaml(to_tree(config::read_run(parse_yaml(once, "again"), "again", {})));
  CHECK(once == again, "{}\nis read back as\n{}", once, again);
  return 0;
}

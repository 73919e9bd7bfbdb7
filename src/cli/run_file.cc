#include "cli/run_file.h"

namespace tessera {

RunConfig open_run(const std::string& path, std::span<const std::string> overrides) {
  RunConfig config = load_run(path, overrides);
  validate(config);
  return config;
}

}  // namespace tessera

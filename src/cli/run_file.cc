#include "cli/run_file.h"

#include "train/small_twin.h"

namespace tessera {

RunConfig open_run(const std::string& path, std::span<const std::string> overrides, bool small) {
  RunConfig config = load_run(path, overrides);
  if (small) {
    std::vector<std::string> keys = small_twin(load_run(path, {}));
    keys.insert(keys.end(), overrides.begin(), overrides.end());
    config = load_run(path, keys);
  }
  validate(config);
  return config;
}

}  // namespace tessera

#include "cli/run_file.h"

#include "base/error.h"
#include "train/small_twin.h"

namespace tessera {

RunConfig open_run(const std::string& path, std::span<const std::string> overrides, bool small,
                   DataUse use) {
  RunConfig config = load_run(path, overrides);
  if (small) {
    std::vector<std::string> keys = small_twin(load_run(path, {}));
    keys.insert(keys.end(), overrides.begin(), overrides.end());
    config = load_run(path, keys);
  }
  validate(config, use);
  validate_names(config);
  return config;
}

void require_layout(const RunConfig& config, const char* verb) {
  if (!config.layout_search.search) return;
  throw Error(
      "{}: layout.search = true leaves the layout to be found for the ranks that start, and "
      "`tessera {}` needs one. `tessera plan RUN --cluster C --devices N` prints the keys of the "
      "best; give them, with layout.search=false.",
      config.source, verb);
}

}  // namespace tessera

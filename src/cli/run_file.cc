#include "cli/run_file.h"

#include "model/presets.h"

namespace tessera {

RunConfig open_run(const std::string& path, std::span<const std::string> overrides) {
  RunConfig config = load_run(path, overrides, {preset_names(), apply_preset});
  validate(config);
  return config;
}

}  // namespace tessera

#include "cli/run_file.h"

#include "base/error.h"
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

Path find_config(const std::string& name, const char* folder) {
  if (std::filesystem::exists(name)) return name;
  const Path known = Path("configs") / folder / (name + ".yaml");
  if (std::filesystem::exists(known)) return known;
  std::string all;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(Path("configs") / folder, none))
    all += fmt::format(" {}", entry.path().stem().string());
  throw Error("there is no file '{}'{}", name,
              !all.empty() ? fmt::format(", and in configs/{}/ only:{}", folder, all)
                           : fmt::format(". Its name is looked for in configs/{}/ of the folder "
                                         "that tessera is started in, too.",
                                         folder));
}

}  // namespace tessera

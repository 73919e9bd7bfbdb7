#include "train/run_file_copy.h"

#include "base/error.h"
#include "train/run_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFirstLine = "# The whole configuration as it ran, tessera ";

bool may_be_replaced(const Path& path, const std::string& given) {
  std::error_code error;
  return !fs::equivalent(path, given, error) && may_replace(path, kFirstLine);
}

}  // namespace

Path write_run_file(const RunConfig& config, const std::string& version) {
  const Path directory = config.run.directory;
  Path path = directory / "run.yaml";
  if (!may_be_replaced(path, config.source)) path = directory / "run.resolved.yaml";
  write_file(path, fmt::format("{}{}.\n{}", kFirstLine, version, to_yaml(to_tree(config))));
  return path;
}

}  // namespace tessera

// Reads a run file from disk; a run file without a model section has that of checkpoint.from.
#include "train/origin.h"
#include "train/run_config.h"

namespace tessera {
namespace {

constexpr int64_t kMostRunFile = int64_t{16} << 20;  // bytes

}  // namespace

RunConfig load_run(const Path& path, std::span<const std::string> overrides) {
  const std::string source = path.string();
  const Tree tree = parse_yaml(read_pipe_or_file(path, kMostRunFile), source);
  RunConfig config = read_run(tree, source, overrides);
  const bool has_model =
      config.places.contains("model.preset") || config.places.contains("model.layers");
  if (has_model || config.checkpoint.from.empty()) return config;
  const ModelConfig model = origin_model(config);
  return read_run(tree, source, overrides, &model);
}

}  // namespace tessera

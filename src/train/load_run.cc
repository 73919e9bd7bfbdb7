// Reads a run file from disk. If it has no model section, the model is that of checkpoint.from.
#include "train/load_run.h"

#include "train/origin.h"

namespace tessera {
namespace {

constexpr int64_t kMostRunFileBytes = int64_t{16} << 20;

}  // namespace

RunFile read_run_file(const Path& path) {
  const std::string source = path.string();
  return {parse_yaml(read_pipe_or_file(path, kMostRunFileBytes), source), source};
}

RunConfig load_run(const Path& path, std::span<const std::string> overrides) {
  return load_run(read_run_file(path), overrides);
}

RunConfig load_run(const RunFile& file, std::span<const std::string> overrides) {
  RunConfig config = read_run(file.tree, file.source, overrides);
  const bool has_model =
      config.places.contains("model.preset") || config.places.contains("model.layers");
  if (has_model || config.checkpoint.from.empty()) return config;
  const ModelConfig model = origin_model(config);
  // Parsed again on top of that model, so that the keys that are given override it.
  return read_run(file.tree, file.source, overrides, &model);
}

}  // namespace tessera

#include "cli/machine_files.h"

#include "base/error.h"
#include "base/shipped_configs.h"
#include "cli/checkpoint_file.h"
#include "plan/predict.h"
#include "train/run_programs.h"

namespace tessera::cli {
namespace {

struct NamedText {
  std::string source, text;
};

NamedText find(const std::string& name, std::string_view folder) {
  if (std::filesystem::is_regular_file(name)) return {name, read_file(name)};
  if (const ShippedConfig* c = shipped_config(folder, name))
    return {fmt::format("{}/{}.yaml", folder, name), std::string(c->text)};
  throw Error("'{}' is neither a file nor one of the {} that the program contains: {}", name,
              folder, shipped_names(folder));
}

}  // namespace

plan::Hardware open_cluster(const std::string& name, std::span<const std::string> overrides) {
  const NamedText file = find(name, "clusters");
  return plan::read_hardware(parse_yaml(file.text, file.source), file.source, overrides);
}

bool has_cluster(const std::string& name) {
  return std::filesystem::is_regular_file(name) || shipped_config("clusters", name) != nullptr;
}

plan::Software open_software(const std::string& name) {
  const NamedText file = find(name, "software");
  return plan::read_software(parse_yaml(file.text, file.source), file.source, {});
}

MachineTarget resolve_for(const plan::Hardware& hardware, config::RunConfig& config) {
  const CpuFeatures cpu = read_cpu_features();
  const bool is_cpu = hardware.device.kind == plan::DeviceKind::kCpu;
  if (config.precision == compile::Precision::kAuto)
    config.precision =
        is_cpu ? train::resolve_precision(config.precision, cpu) : compile::Precision::kBf16;
  train::resolve_sizes(config);
  if (!is_cpu) return {nullptr, plan::cluster_target()};
  auto kernels =
      std::make_unique<runtime::PreparedKernels>(cpu, threads_or_all(config.run.threads));
  Target target = kernels->target();
  return {std::move(kernels), std::move(target)};
}

}  // namespace tessera::cli

#include "cli/device.h"

#include "cli/arguments.h"
#include "train/run_device.h"

namespace tessera {

std::optional<GpuFeatures> gpu_named(const std::string& word, const World& world) {
  RunConfig config;
  if (word == "auto")
    config.run.device = Device::kAuto;
  else if (word == "cpu")
    config.run.device = Device::kCpu;
  else if (word == "cuda")
    config.run.device = Device::kCuda;
  else
    throw UsageError("--device is auto, cpu or cuda, not '{}'.", word);
  return resolve_device(config, world).gpu;
}

}  // namespace tessera

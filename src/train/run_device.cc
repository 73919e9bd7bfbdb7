#include "train/run_device.h"

#include <algorithm>

#include "base/error.h"
#include "train/run_programs.h"

namespace tessera {
namespace {

// In rising order, this one among them.
std::vector<int64_t> ranks_of_host(const World& world) {
  std::vector<int64_t> ranks;
  for (int64_t r = 0; r < world.size(); ++r)
    if (world.host(r) == world.host(world.rank())) ranks.push_back(r);
  return ranks;
}

int64_t number_on_host(const World& world) {
  const std::vector<int64_t> ranks = ranks_of_host(world);
  return std::find(ranks.begin(), ranks.end(), world.rank()) - ranks.begin();
}

// Of products on the device, by the clock of the host: enough of them to hide the launches.
double measure_cuda_rate(DType type, const std::function<double()>& now_s) {
  constexpr int64_t kSize = 4096, kBytes = kSize * kSize * 4, kRepeats = 20;
  const kernels::CudaBlas blas;
  const kernels::CudaMatmul product(
      {.m = kSize, .n = kSize, .k = kSize, .transpose_b = true, .a = type, .b = type, .c = type},
      blas);
  const DeviceBuffer memory("measuring products", 3 * kBytes + product.workspace_bytes());
  std::byte* const at = memory.data();
  const CudaStream stream;
  const auto repeat = [&](int64_t times) {
    for (int64_t i = 0; i < times; ++i)
      product.run(stream.get(), at, at + kBytes, at + 2 * kBytes, at + 3 * kBytes);
    synchronise(stream.get());
  };
  repeat(2);
  const double began = now_s();
  repeat(kRepeats);
  return 2.0 * kSize * kSize * kSize * kRepeats / (now_s() - began);
}

}  // namespace

int64_t RunDevice::memory_limit() const {
  return cuda ? cuda->free_bytes : tessera::memory_limit(cpu);
}

int64_t RunDevice::outside_bytes() const { return cuda ? kCudaOutsideBytes : kOutsideBytes; }

int64_t RunDevice::need(const MemoryPlan& m) const {
  return m.arena + outside_bytes() + (cuda ? 0 : m.host);
}

std::unique_ptr<Library> RunDevice::library(int threads) const {
  return cuda ? std::make_unique<Library>(cpu, threads, *cuda)
              : std::make_unique<Library>(cpu, threads);
}

int64_t threads_for(const CpuFeatures& cpu, const World& world) {
  if (cpu.cores < cpu.online_cores) return cpu.cores;
  return std::max<int64_t>(1, cpu.cores / std::ssize(ranks_of_host(world)));
}

RunDevice resolve_device(RunConfig& config, const World& world) {
  RunDevice d;
  d.cpu = read_cpu_features();
  Device& asked = config.run.device;
  if (asked == Device::kAuto) asked = why_no_cuda().empty() ? Device::kCuda : Device::kCpu;
  if (asked == Device::kCuda) d.cuda = use_cuda_device(number_on_host(world));
  if (d.cuda && config.precision == Precision::kAuto) config.precision = Precision::kBf16;
  config.precision = resolve_precision(config.precision, d.cpu);
  return d;
}

void require_host_memory(World& world, int64_t need, int64_t host_bytes) {
  const std::vector<std::string> needs = world.all_gather(std::to_string(need));
  const std::vector<int64_t> ranks = ranks_of_host(world);
  int64_t together = 0;
  for (const int64_t r : ranks) together += std::stoll(needs[static_cast<size_t>(r)]);
  constexpr double kGib = 1 << 30;
  if (together > host_bytes)
    throw Error(
        "the {} ranks of this run on {} need {:.2f} GiB together; the host has {:.2f}.\n  Start "
        "fewer ranks on a host, or make each smaller: layout.zero, layout.recompute, batch.micro",
        ranks.size(), world.host(world.rank()), static_cast<double>(together) / kGib,
        static_cast<double>(host_bytes) / kGib);
}

double measure_matrix_rate(const Library& library, DType type,
                           const std::function<double()>& now_s) {
  if (library.on_cuda()) return measure_cuda_rate(type, now_s);
  return kernels::measure_matrix_rate(type, library.cpu(), library.threads());
}

}  // namespace tessera

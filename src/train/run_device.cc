#include "train/run_device.h"

#include <omp.h>

#include <algorithm>

#include "base/count.h"
#include "base/error.h"
#include "train/run_programs.h"

namespace tessera {
namespace {

// What OMP_NUM_THREADS allows, before a run sets the size of the team.
const int kOmpThreads = omp_get_max_threads();

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

// Seconds of a square product on the device, by the clock of the host: of several, to hide the
// launches, where one is short.
double product_s(DType type, const kernels::GpuBlas& blas, int64_t size,
                 const std::function<double()>& now_s) {
  constexpr double kLong = 0.01;
  constexpr int64_t kRepeats = 20;
  const int64_t bytes = size * size * 4;
  const kernels::GpuMatmul product(
      {.m = size, .n = size, .k = size, .transpose_b = true, .a = type, .b = type, .c = type},
      blas);
  const DeviceBuffer memory("measuring products", 3 * bytes + product.workspace_bytes());
  std::byte* const at = memory.data();
  const GpuStream stream;
  for (std::byte* const operand : {at, at + bytes})
    kernels::fill_with_noise(stream.get(), operand, type, size * size);
  const auto seconds = [&](int64_t times) {
    const double began = now_s();
    for (int64_t i = 0; i < times; ++i)
      product.run({stream.get(), at + 3 * bytes}, {at, at + bytes, at + 2 * bytes});
    synchronise(stream.get());
    return (now_s() - began) / static_cast<double>(times);
  };
  const double first = seconds(1);  // loads the kernel
  return first > kLong ? first : seconds(kRepeats);
}

// Of products on the device, in operations a second: the best of sizes that grow as long as they
// take little time, and as memory has room for them beside the arena.
double measure_gpu_rate(DType type, bool tf32, const std::function<double()>& now_s) {
  constexpr int64_t kLeast = 512, kMost = 4096, kWorkspace = 64 << 20;
  constexpr double kLong = 0.1;
  const kernels::GpuBlas blas(tf32);
  double rate = 0;
  for (int64_t size = kLeast; size <= kMost; size *= 2) {
    if (size > kLeast && 3 * size * size * 4 + kWorkspace > free_gpu_bytes()) break;
    const double seconds = product_s(type, blas, size, now_s);
    rate = std::max(rate, 2.0 * static_cast<double>(size * size * size) / seconds);
    if (seconds > kLong) break;
  }
  return rate;
}

}  // namespace

int64_t RunDevice::memory_limit() const { return gpu ? gpu->free_bytes : cpu.memory_bytes; }

int64_t RunDevice::outside_bytes(const MemoryPlan& m) const {
  return tessera::outside_bytes(gpu ? Device::kCuda : Device::kCpu, m.communicators);
}

int64_t RunDevice::need(const MemoryPlan& m) const {
  return m.arena + outside_bytes(m) + (gpu ? 0 : m.host);
}

std::unique_ptr<PreparedKernels> RunDevice::kernels(int threads) const {
  return gpu ? std::make_unique<PreparedKernels>(cpu, threads, *gpu, tf32)
             : std::make_unique<PreparedKernels>(cpu, threads);
}

int64_t threads_for(const CpuFeatures& cpu, const World& world) {
  const int64_t share = cpu.cores < cpu.online_cores
                            ? cpu.cores
                            : std::max<int64_t>(1, cpu.cores / std::ssize(ranks_of_host(world)));
  return std::min<int64_t>(share, kOmpThreads);
}

void require_card_for(const RunConfig& config, const GpuFeatures& card) {
  constexpr int kFirstOfEightBits = 89;
  if (config.compiler.products == ProductType::kFp8 && card.architecture < kFirstOfEightBits)
    throw Error(
        "compiler.products=fp8 asks for a card of sm_{} or later; {} is sm_{}. Take "
        "compiler.products=stored.",
        kFirstOfEightBits, card.model, card.architecture);
}

RunDevice resolve_device(RunConfig& config, const World& world) {
  RunDevice d;
  d.cpu = read_cpu_features();
  resolve_machine(config, d.cpu);
  if (config.run.device == Device::kCuda) {
    d.gpu = use_gpu(number_on_host(world));
    require_card_for(config, *d.gpu);
  }
  d.tf32 = config.run.tf32;
  return d;
}

void require_host_memory(World& world, int64_t need, int64_t host_bytes) {
  const std::vector<std::string> needs = world.all_gather(std::to_string(need));
  const std::vector<int64_t> ranks = ranks_of_host(world);
  int64_t together = 0;
  for (const int64_t r : ranks) together += std::stoll(needs[static_cast<size_t>(r)]);
  if (together > host_bytes)
    throw Error(
        "the {} ranks of this run on {} need {:.2f} GiB together; the host has {:.2f}.\n  Start "
        "fewer ranks on a host, or make each smaller: layout.zero, layout.recompute, batch.micro",
        ranks.size(), world.host(world.rank()), gib(together), gib(host_bytes));
}

namespace {

// Formats bytes as GiB, or as MiB below 1 GiB: "1.50 GiB", "340.2 MiB".
std::string short_bytes(int64_t bytes) {
  constexpr double kMib = 1 << 20;
  return gib(bytes) >= 1 ? fmt::format("{:.2f} GiB", gib(bytes))
                         : fmt::format("{:.1f} MiB", static_cast<double>(bytes) / kMib);
}

}  // namespace

std::vector<std::string> memory_lines(const MemoryPlan& m, const Machine& machine,
                                      const RunDevice& device) {
  std::vector<std::string> lines = {
      fmt::format(
          "memory    peak {} (arena, {} bytes) + {} outside at most, of {} this process may "
          "use",
          short_bytes(m.arena), format_count(machine.arena_bytes()),
          short_bytes(device.outside_bytes(m)), short_bytes(device.memory_limit())),
      fmt::format(
          "          weights {}, optimizer {}, gradients {}, activations {}, other {} · live "
          "set {}",
          short_bytes(m.weights), short_bytes(m.optimizer), short_bytes(m.gradients),
          short_bytes(m.activations), short_bytes(m.other), short_bytes(m.live))};
  if (m.host > 0)
    lines.push_back(fmt::format("offload   {:.2f} GiB in the host's memory, {} bytes", gib(m.host),
                                format_count(machine.host_arena_bytes())));
  return lines;
}

std::vector<std::string> device_lines(const Machine& machine) {
  const GpuFeatures& f = machine.kernels().gpu();
  return {fmt::format("device    {}: its kernels are not yet proven on a GPU, see "
                      "scripts/gpu_check.sh",
                      f.model),
          fmt::format("transport {}", machine.transport())};
}

std::string device_memory_line(const Machine& machine) {
  constexpr double kMib = 1 << 20;
  const auto& device = machine.kernels().gpu();
  const auto total = static_cast<double>(device.memory_bytes);
  const auto arena = static_cast<double>(machine.arena_bytes());
  const double outside = total - static_cast<double>(free_gpu_bytes()) - arena;
  return fmt::format(
      "memory    of the device: {} bytes planned, {} allocated; outside_bytes {:.0f} MiB (driver, "
      "code, libraries, NCCL, and other processes), {:.0f} of them before the arena",
      machine.planned_bytes(), machine.arena_bytes(), outside / kMib,
      (total - static_cast<double>(device.free_bytes)) / kMib);
}

double measure_matrix_rate(const PreparedKernels& kernels, DType type,
                           const std::function<double()>& now_s) {
  if (kernels.on_gpu()) return measure_gpu_rate(type, kernels.tf32(), now_s);
  return kernels::measure_matrix_rate(type, kernels.cpu(), kernels.threads());
}

}  // namespace tessera

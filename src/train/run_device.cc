// Resolves the device, the threads and the memory limits of a run from the features of this host
// and the ranks on it.
#include "train/run_device.h"

#include <omp.h>

#include <algorithm>

#include "base/config.h"
#include "base/count.h"
#include "base/error.h"
#include "base/real.h"
#include "tensor/pages.h"
#include "tensor/process_limits.h"
#include "train/progress.h"
#include "train/run_programs.h"

namespace tessera::train {
namespace {

// Returns the ranks of this host in ascending order, including this one.
std::vector<int64_t> ranks_of_host(const comm::World& world) {
  std::vector<int64_t> ranks;
  for (int64_t r = 0; r < world.size(); ++r)
    if (world.host(r) == world.host(world.rank())) ranks.push_back(r);
  return ranks;
}

// Returns the index of this rank among the ranks of its host, which is the index of its GPU.
int64_t number_on_host(const comm::World& world) {
  const std::vector<int64_t> ranks = ranks_of_host(world);
  return std::find(ranks.begin(), ranks.end(), world.rank()) - ranks.begin();
}

}  // namespace

int64_t RunDevice::memory_limit() const { return gpu ? gpu->free_bytes : cpu.memory_bytes; }

int64_t RunDevice::outside_bytes(const compile::MemoryPlan& m) const {
  return train::outside_bytes(gpu ? config::Device::kCuda : config::Device::kCpu, m.communicators);
}

int64_t RunDevice::need(const compile::MemoryPlan& m) const {
  return m.arena + outside_bytes(m) + (gpu ? 0 : m.host);
}

std::unique_ptr<runtime::PreparedKernels> RunDevice::kernels(int threads) const {
  return std::make_unique<runtime::PreparedKernels>(kernels::backend_of(cpu, threads, gpu, tf32));
}

int64_t threads_for(const CpuFeatures& cpu, const comm::World& world) {
  // If the launcher bound this rank to some of the cores, all of them are its own; otherwise the
  // ranks of a host share the cores.
  const int64_t share = cpu.cores < cpu.online_cores
                            ? cpu.cores
                            : std::max<int64_t>(1, cpu.cores / std::ssize(ranks_of_host(world)));
  return std::min<int64_t>(share, omp_get_max_threads());  // limited by OMP_NUM_THREADS
}

// Compares the number of threads that share a set of cores with the number of these cores. A bound
// rank has its own cores; otherwise all ranks of the host share them.
std::string threads_warning(const CpuFeatures& cpu, comm::World& world, int64_t threads) {
  const bool bound = cpu.cores < cpu.online_cores;  // by its launcher, to cores of its own
  const std::vector<int64_t> ranks = ranks_of_host(world);
  const int64_t team = bound ? threads : threads * std::ssize(ranks);
  if (team <= cpu.cores) return "";
  const char* const thread = threads == 1 ? "thread" : "threads";
  const std::string who = bound || ranks.size() == 1
                              ? fmt::format("a rank has {} {}", threads, thread)
                              : fmt::format("the {} ranks of {} have {} {} each", ranks.size(),
                                            world.host(world.rank()), threads, thread);
  return fmt::format(
      "{}, and may use {} core{}: threads wait for each other and steps are slower. Set "
      "run.threads to {}{}.",
      who, cpu.cores, cpu.cores == 1 ? "" : "s",
      std::max<int64_t>(1, bound ? cpu.cores : cpu.cores / std::ssize(ranks)),
      !bound && std::ssize(ranks) > cpu.cores ? ", and start fewer ranks per host" : "");
}

// FP8 GEMMs need the tensor cores of Ada (sm_89) or later.
void require_card_for(const config::RunConfig& config, const GpuFeatures& card) {
  constexpr int kFirstOfEightBits = 89;
  if (config.compiler.gemm_dtype == compile::GemmDType::kFp8 &&
      card.architecture < kFirstOfEightBits)
    throw Error(
        "compiler.gemm_dtype = fp8 needs a GPU with sm_{} or later, but {} has sm_{}. Set "
        "compiler.gemm_dtype=compute.",
        kFirstOfEightBits, card.model, card.architecture);
}

RunDevice resolve_device(config::RunConfig& config, const comm::World& world) {
  RunDevice d;
  d.cpu = read_cpu_features();
  resolve_machine(config, d.cpu);
  if (config.run.device == config::Device::kCuda) {
    d.gpu = use_gpu(number_on_host(world));
    require_card_for(config, *d.gpu);
  }
  d.tf32 = config.run.tf32;
  return d;
}

// Adds up the needs of the ranks of a host, because each rank alone may fit while all of them
// together do not. All ranks of a host compute the same sum, so either all of them throw or none.
void require_host_memory(comm::World& world, int64_t need, int64_t host_bytes) {
  const std::vector<std::string> needs = world.all_gather(std::to_string(need));
  const std::vector<int64_t> ranks = ranks_of_host(world);
  int64_t together = 0;
  for (const int64_t r : ranks) together += std::stoll(needs[r]);
  if (together > host_bytes)
    throw Error(
        "the {} ranks of this run on {} need {:.2f} GiB together; the host has {:.2f}.\n  Start "
        "fewer ranks per host, or reduce their memory: layout.zero, layout.recompute, batch.micro",
        ranks.size(), world.host(world.rank()), gib(together), gib(host_bytes));
}

namespace {

// Formats bytes as GiB, or as MiB below 1 GiB: "1.50 GiB", "340.2 MiB".
std::string short_bytes(int64_t bytes) {
  return gib(bytes) >= 1 ? fmt::format("{:.2f} GiB", gib(bytes))
                         : fmt::format("{:.1f} MiB", ratio(bytes, 1 << 20));
}

}  // namespace

std::vector<std::string> memory_lines(const compile::MemoryPlan& m, const runtime::Engine& engine,
                                      const RunDevice& device) {
  std::vector<std::string> lines = {
      fmt::format(
          "memory    peak {} (arena, {} bytes) + at most {} outside it, limit {} for this process",
          short_bytes(m.arena), format_count(engine.arena_bytes()),
          short_bytes(device.outside_bytes(m)), short_bytes(device.memory_limit())),
      fmt::format(
          "          weights {}, optimizer {}, gradients {}, activations {}, other {} · live "
          "set {}",
          short_bytes(m.weights), short_bytes(m.optimizer), short_bytes(m.gradients),
          short_bytes(m.activations), short_bytes(m.other), short_bytes(m.live))};
  if (m.host > 0)
    lines.push_back(fmt::format("offload   {:.2f} GiB in the host's memory, {} bytes", gib(m.host),
                                format_count(engine.host_arena_bytes())));
  return lines;
}

// The parts of the arena are those of memory_lines(): the ranges in use at the call with the most
// bytes alive. All other resident bytes of the arena are "other".
std::string measured_memory_line(const runtime::Engine& engine) {
  const Arena& arena = engine.arena();
  const int64_t all = resident_bytes({arena.data(), arena.bytes()});
  const int64_t process = process_resident_bytes();
  if (all < 0 || process <= 0) return "";
  EnumArray<compile::MemoryUse, int64_t> bytes = {};
  int64_t named = 0;
  for (const compile::UsedRange& range : compile::used_ranges(engine.program())) {
    if (range.use == compile::MemoryUse::kOther) continue;
    const int64_t own = resident_bytes({arena.data() + range.offset, range.bytes});
    bytes[range.use] += own;
    named += own;
  }
  bytes[compile::MemoryUse::kOther] = all - named;
  std::string parts;
  for (const compile::MemoryUse use : Enumerators<compile::MemoryUse>())
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", name_of_entry(use),
                         short_bytes(bytes[use]));
  return fmt::format("memory    measured after the first step: {} · {} outside the arena", parts,
                     short_bytes(std::max<int64_t>(0, process - all)));
}

std::vector<std::string> device_lines(const runtime::Engine& engine) {
  return {fmt::format("device    {}: the kernels are not yet verified on a GPU, see "
                      "scripts/gpu_check.sh",
                      engine.kernels().backend().model()),
          fmt::format("transport {}", engine.transport())};
}

std::string device_memory_line(const runtime::Engine& engine, const GpuFeatures& device) {
  constexpr int64_t kMib = 1 << 20;
  const int64_t outside = device.memory_bytes - free_gpu_bytes() - engine.arena_bytes();
  return fmt::format(
      "memory    on the device: {} bytes planned, {} allocated; outside_bytes {:.0f} MiB (driver, "
      "code, libraries, NCCL, other processes), {:.0f} MiB of it before the arena",
      engine.planned_bytes(), engine.arena_bytes(), ratio(outside, kMib),
      ratio(device.memory_bytes - device.free_bytes, kMib));
}

}  // namespace tessera::train

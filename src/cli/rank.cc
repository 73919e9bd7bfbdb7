// The rank of this process and the number of ranks, from the environment that the launcher set.
// They are needed before MPI is initialized, for the heartbeat and for messages that only rank 0
// prints.
#include "cli/rank.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/arguments.h"
#include "tensor/cpu_features.h"
#include "tensor/process_limits.h"
#include "train/progress.h"
#include "train/run_device.h"

namespace tessera::cli {
namespace {

// The names of Open MPI come first. Under srun both may be set, with the same values.
constexpr std::array kRank = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
constexpr std::array kRanks = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};

int first_number(const auto& names, int otherwise) {
  for (const char* name : names)
    if (const char* value = std::getenv(name); value != nullptr) return std::atoi(value);
  return otherwise;
}

std::string host_name() {
  // Several nodes of a test cluster may share one machine and its name.
  if (const char* node = std::getenv("SLURMD_NODENAME"); node != nullptr) return node;
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

RankInfo read_rank_info() {
  // A job script has SLURM_PROCID in its environment too. Without the number of tasks of a step
  // this process is not a rank, and the variable is ignored.
  const int ranks = first_number(kRanks, 1);
  return {ranks > 1 ? first_number(kRank, 0) : 0, ranks, host_name()};
}

void require_one_rank(const char* verb) {
  const int ranks = read_rank_info().ranks;
  if (ranks > 1)
    throw UsageError(
        "{}: {} ranks were started, expected one, which holds the whole model. Start it without "
        "mpirun. `tessera generate` and `tessera eval` run on the layout of the run.",
        verb, ranks);
}

std::unique_ptr<launch::Heartbeat> start_heartbeat(const RankInfo& place, const char* version) {
  const char* endpoint = std::getenv(launch::kEndpointVariable);
  if (endpoint == nullptr) return std::make_unique<launch::Heartbeat>();
  launch::HeartbeatOptions o;
  o.monitor = launch::parse_endpoint(endpoint);
  o.hello.rank = place.rank;
  o.hello.ranks = place.ranks;
  o.hello.host = place.host;
  o.hello.pid = getpid();
  o.hello.version = version;
  o.hello.memory_bytes = read_cpu_features().memory_bytes;
  o.now_s = steady_s;
  o.wall_s = wall_s;
  o.resident_bytes = process_resident_bytes;
  o.end_process = [place](const std::string& why) {
    if (!why.empty())
      print_to(stderr,
               fmt::format("tessera: rank {} on {} ends: {}.\n", place.rank, place.host, why));
    _exit(1);  // the training thread may wait in a collective forever
  };
  return std::make_unique<launch::Heartbeat>(std::move(o));
}

std::optional<GpuFeatures> gpu_named(const std::string& word, const comm::World& world) {
  config::RunConfig config;
  if (word == "auto")
    config.run.device = config::Device::kAuto;
  else if (word == "cpu")
    config.run.device = config::Device::kCpu;
  else if (word == "cuda")
    config.run.device = config::Device::kCuda;
  else
    throw UsageError("--device is '{}', expected auto, cpu or cuda.", word);
  return train::resolve_device(config, world).gpu;
}

}  // namespace tessera::cli

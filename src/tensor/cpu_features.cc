#include "tensor/cpu_features.h"

#include <cpuid.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

struct Registers {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}

bool bit(uint32_t word, int n) { return ((word >> n) & 1u) != 0; }

// XCR0: which register files the system saves and restores, hence lets a process use.
uint64_t enabled_state() {
  if (!bit(cpuid(1, 0).c, 27)) return 0;  // no OSXSAVE
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

// Linux hands out AMX tiles only to a process that asks, once, before its first tile instruction.
bool request_amx() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

void read_instructions(CpuFeatures& f) {
  constexpr uint64_t kAvxState = 0x6, kAvx512State = 0xe6, kAmxState = 0x60000;
  const uint64_t state = enabled_state();
  const Registers basic = cpuid(1, 0), extended = cpuid(7, 0), more = cpuid(7, 1);
  const bool avx_state = (state & kAvxState) == kAvxState;
  const bool avx512_state = (state & kAvx512State) == kAvx512State;
  f.avx2 = avx_state && bit(extended.b, 5) && bit(basic.c, 12);  // with FMA
  // The subset all our AVX-512 code needs: F, DQ, BW, VL.
  f.avx512 = avx512_state && bit(extended.b, 16) && bit(extended.b, 17) && bit(extended.b, 30) &&
             bit(extended.b, 31);
  f.avx512_bf16 = f.avx512 && bit(more.a, 5);
  const bool tiles = bit(extended.d, 24) && bit(extended.d, 22);  // AMX-TILE, AMX-BF16
  f.amx_bf16 = f.avx512 && tiles && (state & kAmxState) == kAmxState && request_amx();
}

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line)) return {};
  return line;
}

// "32768K", "1M" or plain bytes.
int64_t parse_size(const std::string& text) {
  std::istringstream in(text);
  int64_t n = 0;
  char unit = 0;
  in >> n >> unit;
  return unit == 'K' ? n << 10 : unit == 'M' ? n << 20 : unit == 'G' ? n << 30 : n;
}

void read_caches(CpuFeatures& f) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    const auto level = first_line(folder + "level"), size = first_line(folder + "size");
    if (!level || !size) break;
    if (*level == "2") f.l2_bytes = parse_size(*size);
    if (*level == "3") f.l3_bytes = parse_size(*size);
  }
  constexpr int64_t kCommonL2 = 1 << 20, kCommonL3 = 16 << 20;  // where the system does not say
  if (f.l2_bytes <= 0) f.l2_bytes = std::max<int64_t>(sysconf(_SC_LEVEL2_CACHE_SIZE), 0);
  if (f.l3_bytes <= 0) f.l3_bytes = std::max<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), 0);
  if (f.l2_bytes == 0) f.l2_bytes = kCommonL2;
  if (f.l3_bytes == 0) f.l3_bytes = kCommonL3;
}

// The folders of this process's control groups for one controller, innermost first; version 2 has
// one tree for all ("0::/path"), version 1 one a controller ("5:memory:/path").
std::vector<std::string> group_folders(const std::string& controller) {
  std::ifstream in("/proc/self/cgroup");
  std::vector<std::string> folders;
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    std::string root = "/sys/fs/cgroup", path = line.substr(second + 1);
    if (names != ",,") {
      if (names.find(fmt::format(",{},", controller)) == std::string::npos) continue;
      root = fmt::format("{}/{}", root, controller);
    }
    for (; path.size() > 1; path.resize(path.rfind('/'))) {
      folders.push_back(fmt::format("{}{}/", root, path));
    }
    folders.push_back(fmt::format("{}/", root));
  }
  return folders;
}

int64_t read_memory() {
  int64_t bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  for (const std::string& folder : group_folders("memory")) {
    for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
      const auto limit = first_line(folder + name);
      if (limit && *limit != "max") bytes = std::min(bytes, parse_size(*limit));
    }
  }
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (getrlimit(resource, &limit) == 0 && limit.rlim_cur < static_cast<rlim_t>(bytes)) {
      bytes = static_cast<int64_t>(limit.rlim_cur);
    }
  }
  return bytes;
}

// Share of the processors' time that the control groups allow, in cores.
double core_quota() {
  double quota = std::numeric_limits<double>::infinity();
  for (const std::string& folder : group_folders("cpu")) {
    double budget = 0, period = 0;
    if (const auto both = first_line(folder + "cpu.max")) {
      std::istringstream(*both) >> budget >> period;  // "max 100000" leaves 0
    } else if (const auto v1 = first_line(folder + "cpu.cfs_quota_us")) {
      std::istringstream(*v1) >> budget;
      std::istringstream(first_line(folder + "cpu.cfs_period_us").value_or("0")) >> period;
    }
    if (budget > 0 && period > 0) quota = std::min(quota, budget / period);
  }
  return quota;
}

int read_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  // Fails with more processors than the fixed set holds; then the number online stands.
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
  const double quota = core_quota();
  if (quota < cores) cores = static_cast<int>(std::ceil(quota));
  return std::max(cores, 1);
}

std::string read_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

CpuFeatures read_cpu_features() {
  CpuFeatures f;
  f.model = read_model();
  f.cores = read_cores();
  f.online_cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  f.memory_bytes = read_memory();
  read_instructions(f);
  read_caches(f);
  return f;
}

}  // namespace tessera

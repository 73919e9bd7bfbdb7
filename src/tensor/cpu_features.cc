// Instruction sets, caches and cores of this machine. An instruction set counts only if both the
// CPU (CPUID) and the operating system (XCR0: the registers it saves at a context switch) support
// it; otherwise its instructions would be illegal. Cores are limited by the affinity mask and by
// the CPU quota of the control groups.
#include "tensor/cpu_features.h"

#include <cpuid.h>
#include <sched.h>
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
#include "tensor/process_limits.h"

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

// Returns XCR0: the register files that the system saves and restores, which are those that a
// process may use.
uint64_t enabled_state() {
  if (!bit(cpuid(1, 0).c, 27)) return 0;  // no OSXSAVE
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

// Requests AMX tiles; returns whether they are available. Linux requires this request before a
// process executes its first tile instruction.
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
  // The subset that all our AVX-512 code needs: F, DQ, BW, VL.
  f.avx512 = avx512_state && bit(extended.b, 16) && bit(extended.b, 17) && bit(extended.b, 30) &&
             bit(extended.b, 31);
  f.avx512_bf16 = f.avx512 && bit(more.a, 5);
  const bool tiles = bit(extended.d, 24) && bit(extended.d, 22);  // AMX-TILE and AMX-BF16
  f.amx_bf16 = f.avx512 && tiles && (state & kAmxState) == kAmxState && request_amx();
}

void read_caches(CpuFeatures& f) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    const auto level = read_first_line(folder + "level"), size = read_first_line(folder + "size");
    if (!level || !size) break;
    if (*level == "2") f.l2_bytes = parse_size(*size);
    if (*level == "3") f.l3_bytes = parse_size(*size);
  }
  constexpr int64_t kCommonL2 = 1 << 20, kCommonL3 = 16 << 20;  // if none is reported
  if (f.l2_bytes <= 0) f.l2_bytes = std::max<int64_t>(sysconf(_SC_LEVEL2_CACHE_SIZE), 0);
  if (f.l3_bytes <= 0) f.l3_bytes = std::max<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), 0);
  if (f.l2_bytes == 0) f.l2_bytes = kCommonL2;
  if (f.l3_bytes == 0) f.l3_bytes = kCommonL3;
}

// Returns the CPU time that the control groups allow, in cores.
double core_quota() {
  double quota = std::numeric_limits<double>::infinity();
  for (const std::string& folder : group_folders("cpu")) {
    double budget = 0, period = 0;
    if (const auto both = read_first_line(folder + "cpu.max")) {
      std::istringstream(*both) >> budget >> period;  // "max 100000" leaves 0
    } else if (const auto v1 = read_first_line(folder + "cpu.cfs_quota_us")) {
      std::istringstream(*v1) >> budget;
      std::istringstream(read_first_line(folder + "cpu.cfs_period_us").value_or("0")) >> period;
    }
    if (budget > 0 && period > 0) quota = std::min(quota, budget / period);
  }
  return quota;
}

int read_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  // This fails if there are more CPUs than fit into the fixed-size set. The number of online CPUs
  // is used then.
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
  f.memory_bytes = memory_limit();
  read_instructions(f);
  read_caches(f);
  return f;
}

}  // namespace tessera

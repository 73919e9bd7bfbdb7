#include "tensor/cpu_features.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tensor/process_limits.h"

namespace tessera {
namespace {

bool system_lists(const std::string& flag) {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word == flag) return true;
    }
    return false;
  }
  return false;
}

TEST(CpuFeatures, AgreeWithWhatTheKernelLists) {
  const CpuFeatures f = read_cpu_features();
  EXPECT_EQ(f.avx2, system_lists("avx2") && system_lists("fma"));
  EXPECT_EQ(f.avx512, system_lists("avx512f") && system_lists("avx512bw") &&
                          system_lists("avx512vl") && system_lists("avx512dq"));
  EXPECT_EQ(f.avx512_bf16, f.avx512 && system_lists("avx512_bf16"));
  EXPECT_TRUE(!f.amx_bf16 || system_lists("amx_bf16"));
  EXPECT_EQ(f.bf16_products(), f.avx512_bf16 || f.amx_bf16);
}

TEST(CpuFeatures, HavePlausibleSizes) {
  const CpuFeatures f = read_cpu_features();
  EXPECT_FALSE(f.model.empty());
  EXPECT_GE(f.cores, 1);
  EXPECT_GE(f.l2_bytes, 128 << 10);
  EXPECT_GT(f.l3_bytes, f.l2_bytes);
  EXPECT_GT(f.memory_bytes, int64_t{64} << 20);
}

TEST(CpuFeatures, CoresFollowTheAffinityOfTheProcess) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(read_cpu_features().cores, 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(CpuFeatures, MemoryFollowsTheLimitOfTheProcess) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit small = before;
  small.rlim_cur = rlim_t{3} << 30;
  if (before.rlim_cur < small.rlim_cur) GTEST_SKIP() << "the limit is lower already";
  if (read_cpu_features().memory_bytes < (int64_t{3} << 30)) GTEST_SKIP() << "a small machine";
  int64_t mapped_pages = 0;
  std::ifstream("/proc/self/statm") >> mapped_pages;
  if (mapped_pages > (int64_t{2} << 30) / 4096) GTEST_SKIP() << "a sanitizer has mapped more";
  ASSERT_EQ(setrlimit(RLIMIT_AS, &small), 0);
  const int64_t bytes = read_cpu_features().memory_bytes;
  const int64_t free = free_address_space();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  // Less than the limit by the code of this program and of its libraries, and by the reserve.
  EXPECT_LT(bytes, (int64_t{3} << 30) - kReservedAddresses);
  EXPECT_GT(bytes, (int64_t{2} << 30));
  EXPECT_LT(free, int64_t{3} << 30);
  EXPECT_GT(free, 0);
  if (before.rlim_cur == RLIM_INFINITY) {
    EXPECT_EQ(free_address_space(), INT64_MAX);
  }
}

}  // namespace
}  // namespace tessera

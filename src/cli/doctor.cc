// tessera doctor: reports the features of this machine, what is slow or missing, and what to do.
//
// Each check reads one fact (CPUID, /proc, /sys, the environment, the GPU driver) and returns a
// line, with advice if the fact makes training slow or impossible. On a single rank nothing is
// measured; `tessera bench` does that. Under mpirun, all ranks measure the same GEMM at the same
// time and the links between pairs of ranks, and rank 0 prints the outliers. This finds a slow node
// before a job is started on it.
#include <gnu/libc-version.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "base/count.h"
#include "base/file.h"
#include "base/tree.h"
#include "cli/rank.h"
#include "cli/show.h"
#include "cli/verbs.h"
#include "measure/rank_rates.h"
#include "tensor/cpu_features.h"
#include "tensor/gpu.h"

namespace tessera::cli {
namespace {

// A line of the report. The advice is empty if nothing is wrong.
struct Finding {
  std::string topic, text, advice;
};

std::string first_line(const Path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

int64_t meminfo(const std::string& key) {  // in bytes; 0 if unknown
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key + ":")) continue;
    return std::strtoll(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  }
  return 0;
}

Finding instructions(const CpuFeatures& f) {
  std::string has = f.avx2 ? "AVX2" : "no AVX2";
  if (f.avx512) has += ", AVX-512";
  if (f.avx512_bf16) has += ", AVX-512 bf16";
  if (f.amx_bf16) has += ", AMX bf16";
  if (!f.avx2)
    return {"instructions", has, "without AVX2 everything is many times slower; use another CPU"};
  if (!f.bf16_products())
    return {"instructions", has,
            "no bf16 GEMMs: bf16 saves memory but no time; precision: fp32 is as fast"};
  return {"instructions", has, ""};
}

// OMP_NUM_THREADS limits the threads of every kernel, so the remaining cores are idle.
Finding threads(const CpuFeatures& f) {
  std::string text = fmt::format("{} of {} cores for this process", f.cores, f.online_cores);
  const char* omp = std::getenv("OMP_NUM_THREADS");
  if (omp != nullptr) text += fmt::format(", OMP_NUM_THREADS={}", omp);
  if (omp != nullptr && std::strtol(omp, nullptr, 10) < f.cores)
    return {"threads", text, "OMP_NUM_THREADS leaves cores idle; unset it, or set run.threads"};
  if (omp != nullptr && std::strtol(omp, nullptr, 10) > f.cores)
    return {"threads", text, "OMP_NUM_THREADS exceeds the number of cores; unset it"};
  return {"threads", text, ""};
}

// Counts the busy processes. The limit is half of the cores, because kernels wait for the slowest
// of their threads.
Finding load(const CpuFeatures& f) {
  double now = 0;
  std::istringstream(first_line("/proc/loadavg")) >> now;
  const std::string text = fmt::format("{:.1f} processes busy over the last minute", now);
  if (now > 0.5 * f.cores)
    return {"load", text, "other processes use this machine: steps will be slower and uneven"};
  return {"load", text, ""};
}

Finding clock() {
  const std::string governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (governor == "powersave")
    return {"clock", "governor powersave",
            "cores may stay slow; as root: cpupower frequency-set -g performance"};
  return {"clock", governor.empty() ? "governor unknown" : "governor " + governor, ""};
}

// Checks the smaller of the available memory and the memory limit of this process. A limit that
// differs from the installed memory by less than 64 MiB is not reported.
Finding memory(const CpuFeatures& f) {
  const int64_t installed = meminfo("MemTotal"), free = meminfo("MemAvailable");
  const int64_t usable = std::min(f.memory_bytes, free);
  std::string text = fmt::format("{:.1f} GiB installed, {:.1f} free", gib(installed), gib(free));
  const bool limited = f.memory_bytes + (int64_t{1} << 26) < installed;
  if (limited) text += fmt::format(", limited to {:.1f} for this process", gib(f.memory_bytes));
  if (usable < int64_t{2} << 30)
    return {"memory", text, "less than 2 GiB: only small models fit; see `tessera compile RUN`"};
  return {"memory", text, ""};
}

Finding huge_pages() {
  const std::string line = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  // The active mode is in brackets: "always [madvise] never".
  const size_t from = line.find('['), to = line.find(']');
  if (from == std::string::npos || to == std::string::npos) return {"huge pages", "unknown", ""};
  const std::string mode = line.substr(from + 1, to - from - 1);
  if (mode == "never")
    return {"huge pages", mode,
            "a few percent slower; as root: echo madvise > "
            "/sys/kernel/mm/transparent_hugepage/enabled"};
  return {"huge pages", mode, ""};
}

Finding disk() {
  struct statvfs s {};
  if (statvfs(".", &s) != 0) return {"disk", "unknown", ""};
  const double free = gib(s.f_bavail * s.f_frsize);
  const std::string text = fmt::format("{:.1f} GiB free here", free);
  if (free < 2)
    return {"disk", text, "each checkpoint needs 12 bytes per parameter; free some space"};
  return {"disk", text, ""};
}

// CUDA encodes a version as 1000 * major + 10 * minor.
std::string cuda_version(int v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); }

Finding gpu() {
  if (compiled_gpu_architectures().empty()) {
    if (!std::filesystem::exists("/dev/nvidia0"))
      return {"GPU", "none; this build runs on the CPU", ""};
    return {"GPU", "an NVIDIA device, which this build does not support", why_no_gpu()};
  }
  const std::string compiled = fmt::format("compiled for sm_{}", compiled_gpu_architectures());
  if (const std::string why = why_no_gpu(); !why.empty())
    return {"GPU", fmt::format("no usable device; {}", compiled),
            std::filesystem::exists("/dev/nvidia0") ? why : ""};
  try {
    const GpuFeatures f = use_gpu(0);
    return {"GPU",
            fmt::format("{} x {}, sm_{}, {} multiprocessors, {:.1f} GiB, {:.1f} free; driver for "
                        "CUDA {}, {}",
                        f.devices, f.model, f.architecture, f.multiprocessors, gib(f.memory_bytes),
                        gib(f.free_bytes), cuda_version(f.driver), compiled),
            ""};
  } catch (const Error& e) {
    return {"GPU", fmt::format("not usable; {}", compiled), e.what()};
  }
}

// Returns the file names of the shared libraries that are mapped into this process. The names
// contain the versions that are loaded, which may differ from those that were compiled against.
std::string libraries() {
  std::ifstream in("/proc/self/maps");
  std::set<std::string> names;
  for (std::string line; std::getline(in, line);) {
    const size_t slash = line.find('/');
    if (slash == std::string::npos) continue;
    const std::string name = Path(line.substr(slash)).filename().string();
    for (const char* known :
         {"libdnnl", "libhwy", "libgomp", "libfmt", "libyaml-cpp", "libspdlog", "libsimdjson",
          "libutf8proc", "libzstd", "libsentencepiece", "libmpi.so"})
      if (name.starts_with(known)) names.insert(name);
  }
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

// Runs all checks, in the order of the report.
std::vector<Finding> examine(const CpuFeatures& f) {
  utsname system{};
  uname(&system);
  return {
      {"program", fmt::format("tessera {}, built by {}", version_and_commit(), TESSERA_COMPILER),
       ""},
      {"system",
       fmt::format("{} {}, libc {}", system.sysname, system.release, gnu_get_libc_version()), ""},
      {"CPU", f.model, ""},
      instructions(f),
      threads(f),
      load(f),
      clock(),
      {"caches", fmt::format("L2 {} KiB per core, L3 {} MiB", f.l2_bytes >> 10, f.l3_bytes >> 20),
       ""},
      memory(f),
      huge_pages(),
      disk(),
      gpu(),
      {"libraries", libraries(), ""}};
}

Tree as_tree(const CpuFeatures& f, const std::vector<Finding>& findings) {
  Tree cpu;
  cpu.set("model", Tree(f.model));
  cpu.set("avx2", Tree(f.avx2));
  cpu.set("avx512", Tree(f.avx512));
  cpu.set("avx512_bf16", Tree(f.avx512_bf16));
  cpu.set("amx_bf16", Tree(f.amx_bf16));
  cpu.set("cores", Tree(int64_t{f.cores}));
  cpu.set("l2_bytes", Tree(f.l2_bytes));
  cpu.set("l3_bytes", Tree(f.l3_bytes));
  cpu.set("memory_bytes", Tree(f.memory_bytes));
  Tree list = Tree::list();
  for (const Finding& finding : findings) {
    Tree t;
    t.set("topic", Tree(finding.topic));
    t.set("found", Tree(finding.text));
    t.set("advice", finding.advice.empty() ? Tree() : Tree(finding.advice));
    list.push(std::move(t));
  }
  Tree root;
  root.set("version", Tree(std::string(version())));
  root.set("commit", Tree(std::string(commit())));
  root.set("cpu", std::move(cpu));
  root.set("findings", std::move(list));
  return root;
}

// Compares the ranks that mpirun started. Every rank measures, and rank 0 prints.
int examine_ranks(bool json, const RankInfo& place) {
  const CpuFeatures features = read_cpu_features();
  const std::unique_ptr<comm::World> world = comm::mpi_world();
  int here = 0;  // number of ranks on this host, which share its cores
  for (int64_t i = 0; i < world->size(); ++i) here += world->host(i) == world->host(place.rank);
  const int threads = std::max(1, features.cores / here);
  const measure::RankRates rates = measure::measure_ranks(*world, features, threads);
  if (world->rank() != 0) return 0;
  const std::vector<std::string> slow = measure::outliers(rates);
  if (json) {
    Tree t, found = Tree::list(), flops = Tree::list();
    for (const double f : rates.flops) flops.push(Tree(f));
    for (const std::string& s : slow) found.push(Tree(s));
    t.set("ranks", Tree(world->size()));
    t.set("matrix_flops_per_s", flops);
    t.set("outliers", found);
    fmt::print("{}\n", to_json(t));
    return 0;
  }
  for (const std::string& line : measure::summary_of(rates)) show("  {}\n", line);
  for (const std::string& line : slow) show("! {}\n", line);
  fmt::print("\n{}\n", slow.empty() ? "No rank is an outlier."
                                    : "The slowest rank sets the step time: fix it or exclude it.");
  return 0;
}

}  // namespace

int verb_doctor(Args args) {
  bool json = false;
  Arguments arguments("doctor",
                      "Report what this machine has, what is slow or missing, with advice.",
                      "tessera doctor   (or mpirun -n 8 tessera doctor, to compare ranks)");
  arguments.json(json);
  if (!arguments.parse(args)) return 0;
  if (const RankInfo place = read_rank_info(); place.ranks > 1) return examine_ranks(json, place);
  const CpuFeatures features = read_cpu_features();
  const std::vector<Finding> findings = examine(features);
  if (json) {
    fmt::print("{}\n", to_json(as_tree(features, findings)));
    return 0;
  }
  size_t advised = 0;
  for (const Finding& f : findings) {
    show("{} {:13} {}\n", f.advice.empty() ? ' ' : '!', f.topic, f.text);
    if (f.advice.empty()) continue;
    show("{:16}→ {}\n", "", f.advice);
    ++advised;
  }
  fmt::print("\n{}\n",
             advised == 0 ? "No warnings." : fmt::format("{} warnings (marked '!').", advised));
  return 0;
}

}  // namespace tessera::cli

// What a run promises about memory: nothing large outside its arenas during steps, a peak that the
// plan foretells, and under a limit either a run that works or a refusal before its first step.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "tensor/process_limits.h"
#include "tests/cli/program.h"
#include "train/load_run.h"
#include "train/loop.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TESSERA_HOOK 0  // the sanitizers' own allocator stands there
#else
#define TESSERA_HOOK 1
#endif

namespace {

constexpr size_t kLarge = 1'000'000;
std::atomic<bool> g_watching{false};
std::atomic<int64_t> g_seen{0}, g_large{0}, g_largest{0};

void note(size_t bytes) {
  if (!g_watching) return;
  ++g_seen;
  if (bytes > kLarge) ++g_large;
  int64_t before = g_largest;
  while (before < static_cast<int64_t>(bytes) &&
         !g_largest.compare_exchange_weak(before, static_cast<int64_t>(bytes))) {
  }
}

}  // namespace

#if TESSERA_HOOK
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t n) {
  note(n);
  return __libc_malloc(n);
}
void* calloc(size_t n, size_t each) {
  note(n * each);
  return __libc_calloc(n, each);
}
void* realloc(void* p, size_t n) {
  note(n);
  return __libc_realloc(p, n);
}
void* memalign(size_t a, size_t n) {
  note(n);
  return __libc_memalign(a, n);
}
void* aligned_alloc(size_t a, size_t n) {
  note(n);
  return __libc_memalign(a, n);
}
int posix_memalign(void** p, size_t a, size_t n) {
  note(n);
  *p = __libc_memalign(a, n);
  return *p == nullptr ? ENOMEM : 0;
}
void* mmap(void* at, size_t n, int access, int flags, int file, off_t offset) noexcept {
  if ((flags & MAP_ANONYMOUS) != 0) note(n);
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, n, access, flags, file, offset));
}
}
#endif

namespace tessera::train {
namespace {

constexpr const char* kSmall =
    "model: { layers: 2, hidden: 256, heads: 4, vocabulary: 8192, context: 64 }\n"
    "data: { tokenizer: t.json, train: [d], sequence_length: 64 }\n"
    "batch: { global: 4, micro: 2 }\n"
    "schedule: { steps: 3 }\n"
    "run: { directory: run, seed: 1, threads: 2 }\n";
constexpr const char* kPythia =
    "model: { preset: pythia-14m }\n"
    "data: { tokenizer: t.json, train: [d], sequence_length: 128 }\n"
    "batch: { global: 2, micro: 1 }\n"
    "schedule: { steps: 2 }\n"
    "run: { directory: run, seed: 1, threads: 2 }\n";

struct Child {
  int code = -1;
  int64_t peak = 0;        // anonymous bytes
  int64_t code_bytes = 0;  // of the program and its libraries
};

void sample(pid_t process, Child& child) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  int64_t code = 0;
  for (std::string line; std::getline(status, line);) {
    const auto bytes = [&](const char* name) -> int64_t {
      return line.starts_with(name) ? std::stoll(line.substr(std::strlen(name))) * 1024 : 0;
    };
    child.peak = std::max(child.peak, bytes("RssAnon:"));
    code += bytes("VmExe:") + bytes("VmLib:");
  }
  child.code_bytes = std::max(child.code_bytes, code);
}

class Memory : public cli::ProgramFolder {
 protected:
  int64_t plan() const {
    const cli::ProgramResult r = run("compile run.yaml --json");
    EXPECT_EQ(r.code, 0) << r.err;
    return std::get<int64_t>(parse_json(r.out, "output").find("plan_bytes")->value);
  }
  // `tessera train run.yaml` with its output in out.txt; `resource` limited where bytes > 0.
  Child train_under(int resource, int64_t bytes) const {
    const pid_t child = fork();
    if (child == 0) {
      const int out = ::open((folder_ / "out.txt").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
      if (chdir(folder_.c_str()) != 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(99);
      const rlimit limit{static_cast<rlim_t>(bytes), static_cast<rlim_t>(bytes)};
      if (bytes > 0) setrlimit(static_cast<__rlimit_resource>(resource), &limit);
      execl(TESSERA_PROGRAM, "tessera", "train", "run.yaml", nullptr);
      _exit(98);
    }
    Child c;
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
      sample(child, c);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    c.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return c;
  }
  void expect_promises(const char* run_file) const {
    put("run.yaml", run_file);
    const int64_t plan = this->plan();
    const Child free = train_under(0, 0);
    EXPECT_EQ(free.code, 0) << get("out.txt");
    fmt::print("plan {} bytes, peak of anonymous memory {} bytes\n", plan, free.peak);
    EXPECT_LE(free.peak, plan + 100'000'000);
    EXPECT_GE(static_cast<double>(free.peak), 0.95 * static_cast<double>(plan));
    for (const int resource : {RLIMIT_DATA, RLIMIT_AS}) {
      std::filesystem::remove_all(folder_ / "run");
      // A run starts only where it fits, so the least limit at which it starts must be enough.
      const int64_t enough =
          plan + 100'000'000 + (resource == RLIMIT_AS ? free.code_bytes + kReservedAddresses : 0);
      EXPECT_EQ(train_under(resource, enough).code, 0) << get("out.txt");
      std::filesystem::remove_all(folder_ / "run");
      // Below that the libraries alone do not load, and no program can say so.
      if (resource == RLIMIT_AS && plan < 200'000'000) continue;
      EXPECT_EQ(train_under(resource, plan - plan / 10).code, 1) << get("out.txt");
      const std::string said = get("out.txt");
      EXPECT_NE(said.find("this run needs"), std::string::npos) << said;
      EXPECT_NE(said.find("this process may use"), std::string::npos) << said;
      EXPECT_EQ(said.find("step 1"), std::string::npos) << said;
    }
  }
};

TEST_F(Memory, SmallModelKeepsItsPromises) { expect_promises(kSmall); }
TEST_F(Memory, PythiaKeepsItsPromises) { expect_promises(kPythia); }

// From the end of step 1 to the end of the last: steps, read-ahead, progress, metrics, TensorBoard.
TEST_F(Memory, NothingLargeIsAllocatedDuringSteps) {
  if (!TESSERA_HOOK) GTEST_SKIP() << "a sanitizer's allocator stands where the hook would";
  put("run.yaml", kSmall);
  std::filesystem::current_path(folder_);
  const std::string more[] = {"schedule.steps=6", "metrics.every_steps=1"};
  config::RunConfig config = load_run("run.yaml", more);
  int asked = 0;  // the wall clock is read twice at the start and once after each step
  TrainOptions options;
  options.now_s = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  options.wall_s = [&asked] {
    ++asked;
    g_watching = asked >= 3 && asked < 8;
    return 1.0;
  };
  options.terminal.file = stderr;
  const TrainOutcome outcome = train(config, options);
  g_watching = false;
  EXPECT_EQ(outcome.step, 6);
  EXPECT_EQ(asked, 8);
  EXPECT_GT(g_seen, 0) << "the hook sees nothing";
  fmt::print("{} allocations in 5 steps, the largest of {} bytes\n", g_seen.load(),
             g_largest.load());
  EXPECT_EQ(g_large, 0);
  const size_t large = 2 * kLarge;
  g_watching = true;
  const std::string proof(large, 'x');
  g_watching = false;
  EXPECT_EQ(g_large, proof.size() / large) << "the hook does not see what is large";
}

}  // namespace
}  // namespace tessera::train

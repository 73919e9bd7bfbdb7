// A save that dies at its k-th change of the file system, or whose disk is full from then on, for
// every k: what was saved before is always whole, and the next start finds a whole checkpoint.
//
// The system calls below stand before the C library's in the program's symbol table, so that the
// code under test and the standard library both go through them.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/folders.h"
#include "tests/checkpoint/sample_state.h"
#include "tests/checkpoint/temporary_folder.h"

namespace {

enum class Fault { kNone, kDie, kFullDisk };

struct Plan {
  Fault fault = Fault::kNone;
  long at = 0;     // the call that goes wrong, from 0
  long calls = 0;  // so far
};
Plan plan;

// Whether this call goes wrong. A full disk stays full for everything that needs room.
bool goes_wrong(bool needs_room) {
  const long call = plan.calls++;
  if (plan.fault == Fault::kDie) return call == plan.at;
  return plan.fault == Fault::kFullDisk && needs_room && call >= plan.at;
}

// Dies as a power cut would, or fails as a full disk does.
int fail() {
  if (plan.fault == Fault::kDie) ::raise(SIGKILL);
  errno = ENOSPC;
  return -1;
}

// What a power cut would still lose: files with bytes, and folders with names, that are not
// flushed. Kept only while `watching`.
bool watching = false;
std::set<std::string> unflushed;
std::vector<std::string> too_early;  // names put in place before what they stand for was flushed

std::string path_of(int fd) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error).string();
}
void name_changed(const std::string& path) {
  if (watching) unflushed.insert(std::filesystem::path(path).parent_path().string());
}
void put_in_place(const std::string& from, const std::string& to) {
  if (!watching) return;
  for (const std::string& path : unflushed)
    if (path == from || path.starts_with(from + "/")) too_early.push_back(path);
  name_changed(to);
}

template <class F>
F real(F, const char* name) {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// Half of the bytes arrive before the fault.
extern "C" ssize_t write(int fd, const void* data, size_t bytes) {
  static const auto next = real(&::write, "write");
  if (watching && fd > 2) unflushed.insert(path_of(fd));
  if (plan.fault == Fault::kNone || fd <= 2) return next(fd, data, bytes);
  if (!goes_wrong(true)) return next(fd, data, bytes);
  if (bytes > 1 && next(fd, data, bytes / 2) < 0) return -1;
  return fail();
}
extern "C" int fsync(int fd) {
  static const auto next = real(&::fsync, "fsync");
  if (goes_wrong(true)) return fail();
  if (watching) unflushed.erase(path_of(fd));
  return next(fd);
}
extern "C" int rename(const char* from, const char* to) {
  static const auto next = real(&::rename, "rename");
  if (goes_wrong(false)) return fail();
  put_in_place(from, to);
  return next(from, to);
}
extern "C" int renameat2(int d1, const char* from, int d2, const char* to, unsigned int flags) {
  static const auto next = real(&::renameat2, "renameat2");
  if (goes_wrong(false)) return fail();
  put_in_place(from, to);
  return next(d1, from, d2, to, flags);
}
extern "C" int unlink(const char* path) {
  static const auto next = real(&::unlink, "unlink");
  return goes_wrong(false) ? fail() : next(path);
}
extern "C" int unlinkat(int fd, const char* path, int flags) {
  static const auto next = real(&::unlinkat, "unlinkat");
  return goes_wrong(false) ? fail() : next(fd, path, flags);
}
extern "C" int mkdir(const char* path, mode_t mode) {
  static const auto next = real(&::mkdir, "mkdir");
  if (goes_wrong(true)) return fail();
  name_changed(path);
  return next(path, mode);
}

namespace tessera::checkpoint {
namespace {

constexpr uint64_t kOld = 1, kNew = 2;  // what step 10 and step 20 hold

struct Outcome {
  bool finished = false;  // the child came to its end: there was no k-th call
  bool error = false;     // it ended with an Error
};

// Runs `act` in a child process, in which the k-th call goes wrong.
template <class Act>
Outcome run_with_fault(Fault fault, long k, Act&& act) {
  const pid_t child = ::fork();
  CHECK(child >= 0, "no child process");
  if (child == 0) {
    plan = {fault, k, 0};
    int code = 0;
    try {
      act();
    } catch (const Error&) {
      code = 1;
    }
    const bool came_to_it = plan.calls > k;
    plan = {};
    ::_exit(code == 1 ? 3 : came_to_it ? 2 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return {};
  return {WEXITSTATUS(status) == 0, WEXITSTATUS(status) == 3};
}

// Step 20 is either whole and new or not there, and step 10 is as it was.
void expect_nothing_lost(const Path& dir, bool old_may_be_gone) {
  const LatestCheckpoint latest = find_latest(dir);
  ASSERT_TRUE(latest.found);
  const int64_t step = latest.found->step;
  ASSERT_TRUE(step == 10 || step == 20) << step;
  EXPECT_TRUE(holds_sample(latest.found->path, step == 10 ? kOld : kNew));
  if (step == 20 && old_may_be_gone) return;
  EXPECT_TRUE(holds_sample(dir / "10", kOld));
}

// Runs `act` after a whole step 10, with a fault at each of its calls in turn, and then once more
// without: it must find its way from what it finds.
template <class Act>
void try_every_call(Fault fault, bool old_may_be_gone, Act&& act) {
  long k = 0;
  for (bool finished = false; !finished; ++k) {
    ASSERT_LT(k, 500) << "the save does not come to its end";
    TemporaryFolder temporary(TemporaryFolder::quick());
    const Path dir = temporary.path() / "checkpoints";
    save_sample(dir, 10, kOld);
    const Outcome outcome = run_with_fault(fault, k, [&] { act(dir); });
    finished = outcome.finished;
    SCOPED_TRACE("fault at call " + std::to_string(k));
    expect_nothing_lost(dir, old_may_be_gone);
    if (fault == Fault::kFullDisk && !outcome.error) {
      EXPECT_TRUE(holds_sample(dir / "20", kNew));
    }
    if (testing::Test::HasFatalFailure()) return;
    act(dir);
    EXPECT_TRUE(holds_sample(dir / "20", kNew));
  }
  EXPECT_GT(k, 10) << "the faults were not reached";
}

TEST(Crash, SaveDiesAtEveryCall) {
  try_every_call(Fault::kDie, false, [](const Path& dir) { save_sample(dir, 20, kNew); });
}

TEST(Crash, DiskIsFullFromEveryCallOn) {
  try_every_call(Fault::kFullDisk, false, [](const Path& dir) { save_sample(dir, 20, kNew); });
}

TEST(Crash, SaveAndPruneDieAtEveryCall) {
  try_every_call(Fault::kDie, true, [](const Path& dir) {
    save_sample(dir, 20, kNew);
    prune(dir, {1, 0, {}});
  });
}

// The same step again, as after a resume from before it: one of the two is there at any moment.
TEST(Crash, SavingTheOnlyStepAgainDiesAtEveryCall) {
  for (long k = 0, finished = 0; !finished; ++k) {
    ASSERT_LT(k, 500);
    TemporaryFolder temporary(TemporaryFolder::quick());
    save_sample(temporary.path(), 10, kOld);
    const auto outcome =
        run_with_fault(Fault::kDie, k, [&] { save_sample(temporary.path(), 10, kNew); });
    finished = outcome.finished;
    const LatestCheckpoint latest = find_latest(temporary.path());
    ASSERT_TRUE(latest.found) << "fault at call " << k;
    EXPECT_TRUE(holds_sample(latest.found->path, kOld) || holds_sample(latest.found->path, kNew));
  }
}

// Nothing gets its final name before its bytes, and the names inside of it, are on the disk; and
// when save() returns, nothing at all is left to be flushed.
TEST(Crash, EverythingIsFlushedBeforeItIsPutInPlace) {
  TemporaryFolder temporary;
  watching = true;
  save_sample(temporary.path() / "checkpoints", 10, kOld);
  watching = false;
  EXPECT_EQ(too_early, std::vector<std::string>{});
  EXPECT_EQ(unflushed, std::set<std::string>{});
}

TEST(Crash, AFullDiskIsAnErrorThatSaysWhatToDo) {
  TemporaryFolder temporary;
  save_sample(temporary.path(), 10, kOld);
  plan = {Fault::kFullDisk, 3, 0};
  const std::string said = error_of([&] { save_sample(temporary.path(), 20, kNew); });
  plan = {};
  EXPECT_NE(said.find("No space left"), std::string::npos) << said;
  EXPECT_NE(said.find("step 20 could not be saved"), std::string::npos) << said;
  EXPECT_NE(said.find("checkpoint.keep"), std::string::npos) << said;
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(temporary.path()))
    names.insert(entry.path().filename());
  EXPECT_EQ(names, std::set<std::string>{"10"});
}

}  // namespace
}  // namespace tessera::checkpoint

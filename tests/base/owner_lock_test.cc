#include "base/owner_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/temporary.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class Lock : public testing::TestWithParam<bool> {
 protected:
  Lock() {
    std::string name = fs::temp_directory_path() / "tessera_lock.XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no folder for the test";
    folder_ = name;
  }
  ~Lock() override { fs::remove_all(folder_); }

  OwnerLockOptions options(double stale_s = 0.5) const {
    OwnerLockOptions o;
    o.subject = "the set";
    o.advice = "Choose another one.";
    o.heartbeat_s = 0.1;
    o.stale_s = stale_s;
    o.record_locks = GetParam();
    return o;
  }

  // Returns the message of a refused lock; empty if it was taken and released.
  std::string refusal(double stale_s = 0.5) const {
    try {
      const OwnerLock lock(file(), options(stale_s));
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

  Path file() const { return folder_ / "run.lock"; }

  // A record as another machine writes it.
  void put_foreign_record() const {
    std::ofstream(file()) << R"({"tessera_lock":1,"host":"far","pid":7,"started":"yesterday",)"
                          << R"("boot":1,"machine":1,"process_start":1,"token":"x"})";
  }

  Path folder_;
};

TEST_P(Lock, H3_ASecondOwnerIsRefusedByName) {
  std::optional<OwnerLock> lock(std::in_place, file(), options());
  const std::string said = refusal();
  for (const std::string& part :
       {std::string("the set"), fmt::format("process {} on {}", getpid(), host_of_this_process()),
        std::string("since 2"), std::string("UTC"), std::string("Choose another one.")})
    EXPECT_NE(said.find(part), std::string::npos) << said;
  lock.reset();
  EXPECT_FALSE(fs::exists(file()));
  EXPECT_EQ(refusal(), "");
}

TEST_P(Lock, H3_AKilledOwnerIsFollowedAtOnce) {
  const pid_t child = ::fork();
  if (child == 0) {
    const OwnerLock lock(file(), options());
    ::_exit(0);  // without the destructor: the file stays
  }
  ::waitpid(child, nullptr, 0);
  ASSERT_TRUE(fs::exists(file()));
  EXPECT_EQ(refusal(1000), "");
  EXPECT_FALSE(fs::exists(file()));
}

TEST_P(Lock, H3_AnOwnerOnAnotherHostCountsWhileItsFileIsRenewed) {
  put_foreign_record();
  std::atomic<bool> ends = false;
  std::thread heartbeat([&] {
    while (!ends) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      fs::last_write_time(file(), fs::file_time_type::clock::now());
    }
  });
  const std::string said = refusal(20);
  ends = true;
  heartbeat.join();
  EXPECT_NE(said.find("process 7 on far has owned it since yesterday"), std::string::npos) << said;
  EXPECT_EQ(refusal(0.2), "");  // and no longer
}

TEST_P(Lock, H3_FilesOfUsersAreNotTaken) {
  std::ofstream(file()) << "my notes";
  EXPECT_NE(refusal().find("is not a Tessera lock file"), std::string::npos) << refusal();
  EXPECT_EQ(read_file(file()), "my notes");
  fs::remove(file());
  std::ofstream(folder_ / "mine") << "";
  fs::create_symlink(folder_ / "mine", file());
  if (GetParam()) {
    EXPECT_NE(refusal().find("is a link"), std::string::npos) << refusal();
  }
  EXPECT_EQ(read_file(folder_ / "mine"), "");
}

TEST_P(Lock, E1_ARemovedFileIsCreatedAgain) {
  OwnerLock lock(file(), options());
  lock.require_owned();
  fs::remove(file());
  lock.require_owned();
  EXPECT_NE(refusal().find("has owned it since"), std::string::npos);
  fs::remove_all(folder_);
  lock.require_owned();
  EXPECT_TRUE(fs::exists(file()));
  EXPECT_EQ(lock.lost(), "");
}

TEST_P(Lock, E1_AnotherOwnerOfTheFileIsALossForGood) {
  OwnerLock lock(file(), options());
  fs::remove(file());
  {
    const OwnerLock second(file(), options());
    EXPECT_THROW(lock.require_owned(), LostOwnership);
    EXPECT_NE(lock.lost().find(fmt::format("process {} on {} has created it again", getpid(),
                                           host_of_this_process())),
              std::string::npos)
        << lock.lost();
    EXPECT_FALSE(lock.renamed_folder());
  }
  EXPECT_THROW(lock.require_owned(), LostOwnership);  // also after the other one has ended
}

TEST_P(Lock, E1_ARenamedFolderIsALoss) {
  const Path moved = folder_.string() + ".moved";
  {
    OwnerLock lock(file(), options());
    fs::rename(folder_, moved);
    fs::create_directory(folder_);
    EXPECT_THROW(lock.require_owned(), LostOwnership);
    EXPECT_NE(lock.lost().find("renamed to " + moved.string()), std::string::npos) << lock.lost();
    EXPECT_EQ(lock.renamed_folder(), moved);
    EXPECT_EQ(refusal(), "");
  }
  EXPECT_FALSE(fs::exists(moved / "run.lock"));
  fs::remove_all(moved);
}

// A file server keeps the lock of a host that crashed for a while.
TEST_P(Lock, H3_TheLockOfAHostThatCrashedIsWaitedFor) {
  if (!GetParam()) GTEST_SKIP() << "needs record locks";
  const auto hold = [this](int milliseconds) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    put_foreign_record();
    const int fd = ::open(file().c_str(), O_RDWR);
    struct flock whole {};
    whole.l_type = F_WRLCK;
    if (::fcntl(fd, F_OFD_SETLK, &whole) != 0) ::_exit(1);
    std::ofstream(folder_ / "held") << "";
    ::usleep(static_cast<useconds_t>(milliseconds) * 1000);
    ::_exit(0);
  };
  for (const bool released : {true, false}) {
    fs::remove(folder_ / "held");
    const pid_t child = hold(released ? 300 : 3000);
    while (!fs::exists(folder_ / "held")) ::usleep(1000);
    const std::string said = refusal(released ? 1 : 0.2);
    if (released) {
      EXPECT_EQ(said, "");
    } else {
      EXPECT_NE(said.find("process 7 on far has owned it"), std::string::npos) << said;
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

// A record torn by a power failure: the owner is unknown.
TEST_P(Lock, H3_AnEmptyRecordIsFollowed) {
  std::ofstream(file()) << std::string(10, '\0');
  EXPECT_EQ(refusal(0.2), "");
}

// Each child counts itself in and out of a file of one byte per owner.
TEST_P(Lock, H3_OfManyStartsOneOwnsAtATime) {
  constexpr int kStarts = 24;
  std::vector<pid_t> children;
  for (int i = 0; i < kStarts; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      int code = 0;
      try {
        const OwnerLock lock(file(), options());
        if (::mkdir((folder_ / "owned").c_str(), 0700) != 0) code = 2;  // another one is inside
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        ::rmdir((folder_ / "owned").c_str());
      } catch (const Error&) {
        code = 1;
      }
      ::_exit(code);
    }
    children.push_back(child);
  }
  int owned = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_NE(WEXITSTATUS(status), 2);
    owned += WEXITSTATUS(status) == 0;
  }
  EXPECT_GE(owned, 1);
  EXPECT_FALSE(fs::exists(file()));
}

INSTANTIATE_TEST_SUITE_P(RecordLocks, Lock, testing::Values(true, false),
                         [](const auto& p) { return p.param ? "Kernel" : "FileAlone"; });

TEST(Temporary, M7_NamesTellWhetherTheirProcessRuns) {
  const Path name = temporary_name("a/d.bin");
  EXPECT_EQ(name.parent_path(), "a");
  const auto parsed = parse_temporary(name.filename().string());
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->base, "d.bin");
  EXPECT_EQ(parsed->maker, this_process());
  EXPECT_EQ(running(parsed->maker), Running::kYes);
  ProcessIdentity other = parsed->maker;
  other.start += 1;  // the same process id, used again
  EXPECT_EQ(running(other), Running::kNo);
  other.machine += 1;
  EXPECT_EQ(running(other), Running::kUnknown);
  EXPECT_NE(temporary_name("a"), temporary_name("a"));
  for (const char* no : {"d.bin.part", "40.part", "d.bin.1-2-3.part", "d.bin.1-2-3-4-5.part",
                         "d.bin.1-2-3-x.part", ".1-2-3-4.part", "d.bin.1-2-3-4"})
    EXPECT_FALSE(parse_temporary(no)) << no;
}

}  // namespace
}  // namespace tessera

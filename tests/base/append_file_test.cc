// A file that is written as a best effort.
#include "base/append_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "base/log.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class AppendFileTest : public testing::Test {
 protected:
  AppendFileTest() { fs::create_directories(folder_); }
  ~AppendFileTest() override { fs::remove_all(folder_); }

  Path folder_ = fs::temp_directory_path() / fmt::format("tessera_append_{}", getpid());
  Path path_ = folder_ / "a/b.txt";
};

// Simulates a full disk: files may have at most that many bytes.
void allow_bytes(rlim_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit;
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

TEST_F(AppendFileTest, H4_LinesOfAFullDiskAreWrittenLaterAndNoneIsTorn) {
  AppendFile file(path_);
  file.append("first\n");
  allow_bytes(10);
  file.append("second\n");
  file.append("third\n");
  const auto failed = file.take_report();
  file.append("fourth\n");
  const auto again = file.take_report();
  const std::string torn = read_file(path_);
  allow_bytes(RLIM_INFINITY);
  file.append("fifth\n");
  EXPECT_EQ(torn, "first\n");
  ASSERT_TRUE(failed);
  EXPECT_NE(failed->find("b.txt: cannot be written: File too large"), std::string::npos) << *failed;
  EXPECT_FALSE(again);
  EXPECT_EQ(read_file(path_), "first\nsecond\nthird\nfourth\nfifth\n");
  EXPECT_NE(file.take_report()->find("without a gap"), std::string::npos);
  EXPECT_FALSE(file.take_report());
}

TEST_F(AppendFileTest, TheFirstOfWhatIsTooMuchIsDropped) {
  AppendFile file(path_);
  allow_bytes(0);
  const std::string line(1 << 20, 'x');
  for (int i = 0; i < 20; ++i) file.append(line);
  allow_bytes(RLIM_INFINITY);
  file.append("end");
  EXPECT_EQ(fs::file_size(path_), 16 * line.size() + 3);
}

TEST_F(AppendFileTest, ARemovedFileIsMadeAgain) {
  AppendFile file(path_, "head\n");
  file.append("first\n");
  fs::remove_all(folder_);
  file.append("second\n");
  file.append("third\n");
  EXPECT_EQ(read_file(path_), "head\nsecond\nthird\n");
  EXPECT_FALSE(file.take_report());
}

TEST_F(AppendFileTest, TheFileOfANewOwnerIsNotWritten) {
  bool owned = true;
  AppendFile file(path_, "", [&] { return owned; });
  file.append("first\n");
  fs::remove(path_);
  { AppendFile other(path_); }
  owned = false;
  file.append("second\n");
  EXPECT_EQ(read_file(path_), "");
  EXPECT_NE(file.take_report().value_or("").find("belongs to another process now"),
            std::string::npos);
}

TEST_F(AppendFileTest, APlaceThatCannotBeIsReportedOnce) {
  write_file(folder_ / "a", "");
  AppendFile file(path_);
  EXPECT_NE(file.take_report()->find("a/b.txt: cannot be opened"), std::string::npos);
  file.append("first\n");
  EXPECT_FALSE(file.take_report());
  fs::remove(folder_ / "a");
  file.append("second\n");
  EXPECT_EQ(read_file(path_), "first\nsecond\n");
}

// Someone replaces the file while it is in use.
TEST_F(AppendFileTest, L13_OnlyARegularFileIsAppendedTo) {
  write_file(folder_ / "other", "");
  const std::function<void()> changes[] = {[&] { EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0); },
                                           [&] { fs::create_symlink(folder_ / "other", path_); },
                                           [&] { fs::create_symlink("/dev/null", path_); }};
  for (const auto& change : changes) {
    fs::remove(path_);
    AppendFile file(path_, "head\n");
    fs::remove(path_);
    change();
    file.append("first\n");
    EXPECT_NE(file.take_report().value_or("none").find("b.txt: cannot be opened"),
              std::string::npos);
    file.append("second\n");
    fs::remove(path_);
    file.append("third\n");
    EXPECT_EQ(read_file(path_), "head\nfirst\nsecond\nthird\n");
  }
  EXPECT_EQ(read_file(folder_ / "other"), "");
  // A FIFO with a reader opens.
  fs::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const int reader = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK);
  AppendFile file(path_);
  EXPECT_NE(file.take_report().value_or("none").find("not a regular file"), std::string::npos);
  ::close(reader);
}

TEST(Print, M8_APipeWithoutAReaderDropsText) {
  std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::FILE* file = ::fdopen(ends[1], "w");
  EXPECT_FALSE(reader_is_gone(file));
  ::close(ends[0]);
  for (int i = 0; i < 3; ++i) print_to(file, std::string(1 << 20, 'x'));
  EXPECT_EQ(std::ferror(file), 0);
  EXPECT_TRUE(reader_is_gone(file));
  std::fclose(file);
}

}  // namespace
}  // namespace tessera

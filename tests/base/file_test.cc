#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/error.h"
#include "base/mapped_fault.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class File : public testing::Test {
 protected:
  File() : folder_(fs::temp_directory_path() / fmt::format("tessera_file_{}", getpid())) {
    fs::create_directories(folder_);
  }
  ~File() override { fs::remove_all(folder_); }
  Path folder_;
};

std::string error_of(auto&& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST_F(File, RoundTrip) {
  const Path path = folder_ / "a";
  std::string text(3'000'000, 'x');
  text[1'234'567] = '\0';
  write_file(path, text);
  EXPECT_EQ(read_file(path), text);
  EXPECT_FALSE(fs::exists(folder_ / "a.part"));
  const MappedFile mapped(path);
  EXPECT_EQ(mapped.bytes().size(), text.size());
  EXPECT_EQ(mapped.bytes()[1'234'567], std::byte{0});
}

TEST_F(File, NothingIsLostWithoutCommit) {
  const Path path = folder_ / "a";
  write_file(path, "old");
  {
    FileWriter writer(path);
    writer.write("new", 3);
    EXPECT_EQ(writer.written(), 3);
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_FALSE(fs::exists(folder_ / "a.part"));
}

TEST_F(File, PiecesOfAnySizeAreKeptInOrder) {
  const Path path = folder_ / "a";
  std::string want;
  FileWriter writer(path);
  for (size_t n : {1u, 5000u, 1048576u, 3u, 2000000u, 1048575u, 2u}) {
    const std::string piece(n, static_cast<char>('a' + n % 26));
    writer.write(piece.data(), n);
    want += piece;
  }
  writer.commit();
  EXPECT_EQ(read_file(path), want);
}

TEST_F(File, ErrorsNameTheFileAndTheReason) {
  const std::string missing = (folder_ / "none").string();
  EXPECT_EQ(error_of([&] { read_file(missing); }),
            missing + ": cannot be opened: No such file or directory");
  EXPECT_EQ(error_of([&] { read_file(folder_); }),
            folder_.string() + ": is a folder, expected a file");
  EXPECT_EQ(error_of([&] { MappedFile m(folder_); }),
            folder_.string() + ": is a folder, expected a file");
  EXPECT_NE(error_of([&] { write_file(folder_ / "no" / "a", "x"); }).find("cannot be created"),
            std::string::npos);
}

TEST_F(File, AFullDiskIsAnError) {
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{10, limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string said = error_of([&] { write_file(folder_ / "a", "more than ten bytes"); });
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(said, (folder_ / "a").string() + ": cannot be written: File too large");
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(File, L11_LinksAtTemporaryNamesAreNotFollowed) {
  write_file(folder_ / "victim", "keep");
  fs::create_symlink(folder_ / "victim", folder_ / "a.part");
  write_file(folder_ / "a", "new");
  EXPECT_EQ(read_file(folder_ / "victim"), "keep");
  EXPECT_EQ(read_file(folder_ / "a"), "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "a.part"));
}

TEST_F(File, M7_TwoWritersOfOneFileEachWriteAWholeOne) {
  const Path path = folder_ / "a";
  FileWriter first(path), second(path);
  const std::string a(2'000'000, 'a'), b(3'000'000, 'b');
  first.write(a.data(), a.size());
  second.write(b.data(), b.size());
  second.commit();
  EXPECT_EQ(read_file(path), b);
  first.commit();
  EXPECT_EQ(read_file(path), a);
}

TEST_F(File, M7_WhatAKilledWriterLeftIsRemoved) {
  const Path path = folder_ / "a";
  const pid_t child = ::fork();
  if (child == 0) {
    FileWriter writer(path);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(fs::is_empty(folder_));
  write_file(folder_ / "a.b", "another file");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2);
  FileWriter under_way(path);
  write_file(path, "new");  // leaves what a live process writes
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 3);
  under_way.commit();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2);
}

TEST_F(File, L13_PipesAndDevicesAreRefusedByName) {
  const Path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string said = pipe.string() + ": is a FIFO (a named pipe), expected a file";
  EXPECT_EQ(error_of([&] { read_file(pipe); }), said);
  EXPECT_EQ(error_of([&] { MappedFile m(pipe); }), said);
  EXPECT_EQ(error_of([&] { write_file(pipe, "x"); }), said);
  for (const char* device : {"/dev/zero", "/dev/full", "/dev/null"}) {
    const std::string refused = std::string(device) + ": is a device, expected a file";
    EXPECT_EQ(error_of([&] { read_file(device); }), refused);
    EXPECT_EQ(error_of([&] { MappedFile m(device); }), refused);
    EXPECT_EQ(error_of([&] { write_file(device, "x"); }), refused);
    EXPECT_EQ(error_of([&] { read_pipe_or_file(device, 100); }), refused);
  }
}

TEST_F(File, L13_PipesAreReadWhereTheyMayBeUpToABound) {
  const Path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto fill = [&](size_t bytes) {
    const int fd = ::open(pipe.c_str(), O_WRONLY);
    const std::string text(bytes, 'x');
    const ssize_t n = ::write(fd, text.data(), text.size());
    (void)n;
    ::close(fd);
  };
  std::thread writer(fill, 5000);
  EXPECT_EQ(read_pipe_or_file(pipe, 5000).size(), 5000u);
  writer.join();
  writer = std::thread(fill, 5001);
  EXPECT_NE(
      error_of([&] { read_pipe_or_file(pipe, 5000); }).find("exceeds the limit of 5000 bytes"),
      std::string::npos);
  writer.join();
}

TEST_F(File, AnEmptyFileIsEmpty) {
  write_file(folder_ / "a", "");
  EXPECT_EQ(read_file(folder_ / "a"), "");
  EXPECT_TRUE(MappedFile(folder_ / "a").bytes().empty());
}

// A mapped file that is truncated while it is read: zeros instead of a SIGBUS, and an Error.
TEST_F(File, M9_ACutMappedFileIsAnError) {
  const Path path = folder_ / "a";
  write_file(path, std::string(100'000, 'x'));
  {
    const MappedFile mapped(path);
    EXPECT_NO_THROW(require_mapped_reads());
    std::filesystem::resize_file(path, 10'000);
    EXPECT_EQ(mapped.bytes()[50'000], std::byte{0});
    EXPECT_EQ(error_of([] { require_mapped_reads(); }).find(path.string() + ": cannot be read"),
              0u);
    EXPECT_NO_THROW(require_mapped_reads());  // reported once
  }
  const MappedFile again(path);
  EXPECT_EQ(again.bytes()[9'000], std::byte{'x'});
}

}  // namespace
}  // namespace tessera
